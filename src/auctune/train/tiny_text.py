"""The texts that the tiny base model is trained on: short, plain, and generated from templates.

They contain spelling, the commonest words, and the shape of facts, stories, sums, questions with
answers and chats, so that fine-tuning starts from something that has seen language.
"""

import random
from collections.abc import Iterator


def listed(words: str) -> tuple[str, ...]:
    """The words of a text, as a tuple."""
    return tuple(words.split())


NOUNS = listed(
    """
    address agent answer apple arm bag ball bank battery bed bill bird board boat book bottle
    box bread bridge brother bus button cable cake camera car card chair charger child church
    city class cloud coat code coffee computer corner country cup customer date daughter day
    delivery desk device dinner dog door drink email engine error evening eye family farm father
    field file film fire fish floor flower food foot friend game garden gate glass goods group
    hand hat head headset help home horse hospital hour house idea invoice island job key
    keyboard kitchen lake lamp language letter light line list machine mail manager map market
    meal message milk minute model money monitor month moon morning mother mountain mouse mouth
    movie music name network news night number office oil order package page paper park part
    party password payment people person phone picture piece plan plant plate price printer
    problem product question radio rain reason refund replacement report request return river
    road room router rule salt school screen sea seat service shirt shoe shop side sister site
    song sound speaker star station step stone store storm story street student sugar summer sun
    support system table tablet tea teacher team test thing ticket time tool town toy train
    travel tree trip update user video village voice wall warranty watch water webcam week
    weight wheel wife wind window winter wood word work year
    """
)
ADJECTIVES = listed(
    """
    able angry bad best better black blue broken brown busy careful cheap clean clear cold
    correct damaged dark dear different difficult dirty dry early easy empty expensive fair fast
    fine free full funny good great green happy hard heavy high hot kind large last late left
    light local long loud low missing new next nice noisy old open perfect poor pretty quick
    quiet ready red rich right sad safe short sick simple slow small smart soft sorry strong
    sure sweet tall thin tired warm weak wet white whole wide wrong yellow young
    """
)
VERBS = listed(
    """
    answer arrive ask become begin break bring build buy call carry change check choose clean
    close come connect contact cost cut deliver drink drive eat fall feel fill find fix follow
    forget get give go grow happen hear help hold install keep know learn leave let like listen
    live look lose love make mean meet move need offer open order pay plan play please press put
    read receive remember repair replace report reset restart return run say see sell send ship
    show sit sleep speak stand start stay stop study take talk teach tell thank think try turn
    understand update use wait walk want wash watch wear work write
    """
)
SMALL_WORDS = listed(
    """
    a about after again all also always an and any are at back be because been before both but
    by can could did do does down each even every few first for from had has have he her here
    him his how i if in into is it its just least less like many may me more most much must my
    never no not now of off often on once one only or other our out over she should since so
    some soon still such than that the their them then there these they this those three through
    to today together too two under until up us very was we well were what when where which
    while who why will with without won't would yes yesterday yet you your I'm I'll don't isn't
    can't it's we'll
    """
)


NAMES = ["Ada", "Ben", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana", "Ivan", "Jana"]
PLACES = ["the harbour", "the market", "the old mill", "the station", "the library", "the garden"]
CITIES = ["Oslo", "Lima", "Cairo", "Hanoi", "Quito", "Dakar", "Perth", "Turin", "Lagos", "Osaka"]
THINGS = ["a lamp", "a kettle", "a bicycle", "a map", "a basket", "a clock", "a blanket", "a key"]
COLOURS = ["red", "green", "blue", "white", "black", "yellow", "brown", "grey"]
ANIMALS = {"cow": "grass", "cat": "fish", "bee": "nectar", "horse": "hay", "owl": "mice"}
OPPOSITES = {"hot": "cold", "big": "small", "early": "late", "open": "closed", "full": "empty"}
SKIES = ["sunny", "cloudy", "windy", "foggy", "rainy", "snowy", "stormy", "clear"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
WORK = ["baker", "teacher", "doctor", "driver", "painter", "farmer", "nurse", "pilot"]
STEPS = ["Open the box", "Read the label", "Fill the tank", "Press the button", "Wait a minute"]
TOPICS = ["order", "account", "password", "invoice", "delivery", "refund", "address"]


def texts(seed: int) -> Iterator[str]:
    """Plain texts of one to three sentences, without end."""
    source = random.Random(seed)
    makers = (
        *(_fact, _story, _sum, _weather, _list, _question, _letter),
        *(_sentence, _sentence, _remark, _remark, _words, _syllables),
    )
    while True:
        yield source.choice(makers)(source)


def chats(seed: int) -> Iterator[list[dict[str, str]]]:
    """Chats of one question and its answer, some with a system message, without end."""
    source = random.Random(seed)
    while True:
        question, answer = _exchange(source)
        head = [{"role": "system", "content": "You are a helpful assistant."}]
        yield [
            *(head if source.random() < 0.25 else []),
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]


def _fact(source: random.Random) -> str:
    name, other = source.sample(NAMES, 2)
    work, city = source.choice(WORK), source.choice(CITIES)
    return source.choice(
        (
            f"{name} is a {work} and lives in {city}.",
            f"{name} and {other} met in {city}. They are friends now.",
            f"There is a {source.choice(COLOURS)} house near {source.choice(PLACES)}.",
            f"The {work} of our town is called {name}.",
        )
    )


def _story(source: random.Random) -> str:
    name, thing = source.choice(NAMES), source.choice(THINGS)
    return (
        f"On {source.choice(DAYS)} {name} went to {source.choice(PLACES)} and bought {thing}. "
        f"It was {source.choice(COLOURS)} and cost {source.randint(2, 60)} coins."
    )


def _sum(source: random.Random) -> str:
    a, b = source.randint(0, 20), source.randint(0, 20)
    return source.choice(
        (
            f"{a} plus {b} is {a + b}.",
            f"{a + b} minus {b} is {a}.",
            f"{a} + {b} = {a + b}",
            f"{max(a, b)} is {'more than' if a != b else 'as much as'} {min(a, b)}.",
        )
    )


def _weather(source: random.Random) -> str:
    today, later = source.sample(SKIES, 2)
    return (
        f"The weather in {source.choice(CITIES)} is {today} today, with a high of "
        f"{source.randint(-5, 35)} degrees. On {source.choice(DAYS)} it will be {later}."
    )


def _list(source: random.Random) -> str:
    steps = source.sample(STEPS, 3)
    return "\n".join(f"{number}. {step}." for number, step in enumerate(steps, start=1))


def _question(source: random.Random) -> str:
    question, answer = _exchange(source)
    return f"Question: {question}\nAnswer: {answer}"


def _letter(source: random.Random) -> str:
    name, topic = source.choice(NAMES), source.choice(TOPICS)
    return source.choice(
        (
            f"Dear {name}, thank you for your message about the {topic}. We will reply soon.",
            f"Hello, I have a problem with my {topic}. Can you please help me? {name}",
            f"The {topic} number is {source.randint(100, 999)}. Please keep it.",
        )
    )


def _sentence(source: random.Random) -> str:
    one, two = source.sample(NOUNS, 2)
    first, second = source.sample(ADJECTIVES, 2)
    verb, name = source.choice(VERBS), source.choice(NAMES)
    return source.choice(
        (
            f"The {first} {one} and the {second} {two} are here.",
            f"We {verb} the {first} {one} near the {two}.",
            f"{name} will {verb} your {one} with a {second} {two}.",
            f"I think that this {one} is {first} but the {two} is {second}.",
            f"They did not {verb} the {two}. The {one} was too {first}.",
            f"If the {one} is {first}, please {verb} the {second} {two} again.",
        )
    )


def _remark(source: random.Random) -> str:
    one, two = source.sample(NOUNS, 2)
    first, verb, name = source.choice(ADJECTIVES), source.choice(VERBS), source.choice(NAMES)
    return source.choice(
        (
            f"{name}: My {one} is {first}. Can you {verb} it?\n"
            f"Agent: Yes, we can {verb} your {one}. Is the {two} {first} too?",
            f"User: How do I {verb} a {one}?\nReply: To {verb} a {one}, use the {first} {two}.",
            f"{one}: {first}\n{two}: {first}\n{verb}: {one}, {two}",
            f"I'm sorry that your {one} is {first}. We will {verb} it and send a {two}.",
            f'"{one.title()} and {two}", said {name}, "are both {first}."',
        )
    )


def _words(source: random.Random) -> str:
    """Words in no order, twice: a repetition to predict."""
    words = source.choices(NOUNS + VERBS + ADJECTIVES + SMALL_WORDS, k=source.randint(3, 9))
    return f"{' '.join(words)}{source.choice('.,:;!?/-')} {' '.join(words)}"


def _syllables(source: random.Random) -> str:
    """Made-up words and numbers, twice: any spelling may come."""
    words = []
    for _ in range(source.randint(1, 4)):
        parts = [
            source.choice("bcdfghjklmnpqrstvwxyz")
            + source.choice("aeiouy")
            + source.choice(" nrst")
            for _ in range(source.randint(1, 3))
        ]
        word = "".join(parts).replace(" ", "")
        words.append(
            source.choice((word, word.title(), word.upper(), f"#{source.randrange(9999)}"))
        )
    return f"{' '.join(words)} = {' '.join(words)}"


def _exchange(source: random.Random) -> tuple[str, str]:
    a, b = source.randint(0, 12), source.randint(0, 12)
    animal, food = source.choice(list(ANIMALS.items()))
    word, opposite = source.choice(list(OPPOSITES.items()))
    name, work = source.choice(NAMES), source.choice(WORK)
    city, sky = source.choice(CITIES), source.choice(SKIES)
    day = source.randrange(7)
    return source.choice(
        (
            (f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."),
            (f"What does a {animal} eat?", f"A {animal} eats {food}."),
            (f"What is the opposite of {word}?", f"The opposite of {word} is {opposite}."),
            (f"{name} is a {work}. What is {name}'s work?", f"{name} is a {work}."),
            (f"It is {sky} in {city}. How is the weather?", f"The weather in {city} is {sky}."),
            (f"Which day comes after {DAYS[day]}?", f"{DAYS[(day + 1) % 7]} comes next."),
            (f"Say hello to {name}.", f"Hello {name}, nice to meet you!"),
        )
    )
