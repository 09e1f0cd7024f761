-- A publisher's chain: its blocks by CID, what it offers now, and which blocks of entries each offer needs.

-- 'publisher' is the peer id that signs, 'head' the CID of the newest advertisement, both once they are known.
CREATE TABLE IF NOT EXISTS state (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- The data comes last, so that nothing else is behind its overflow pages.
CREATE TABLE IF NOT EXISTS blocks (
    cid BLOB PRIMARY KEY,
    is_advert INTEGER NOT NULL,
    data BLOB NOT NULL
);

CREATE INDEX IF NOT EXISTS blocks_of_entries ON blocks (cid) WHERE is_advert = 0;

CREATE TABLE IF NOT EXISTS offers (
    id INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    context BLOB NOT NULL,
    metadata BLOB NOT NULL,
    advert BLOB NOT NULL,
    multihashes INTEGER NOT NULL,
    UNIQUE (provider, context)
);

-- Two offers with the same content may share a block; one that has no row here is swept.
CREATE TABLE IF NOT EXISTS entries (
    cid BLOB NOT NULL,
    offer INTEGER NOT NULL REFERENCES offers (id) ON DELETE CASCADE,
    PRIMARY KEY (cid, offer)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS entries_of_offers ON entries (offer);
