"""Common English words that the tiny base's texts are made of."""


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
