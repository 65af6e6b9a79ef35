"""The paper's data sets, where a user has their files, in the formats they are published in."""
