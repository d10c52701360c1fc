-- The levels of the verdict as values beside its sentence: mixing is unknown, good, fair or poor; bias
-- is unknown, none seen, mild or strong; NULL while there is no verdict.
ALTER TABLE job ADD COLUMN mixing TEXT;
ALTER TABLE job ADD COLUMN bias TEXT;

-- Jobs from before say them in the sentence only: "mixing: LEVEL (...); bias: LEVEL (...)".
UPDATE job
SET mixing = CASE
        WHEN verdict LIKE 'mixing: good%' THEN 'good'
        WHEN verdict LIKE 'mixing: fair%' THEN 'fair'
        WHEN verdict LIKE 'mixing: poor%' THEN 'poor'
        ELSE 'unknown'
    END,
    bias = CASE
        WHEN verdict LIKE '%; bias: strong%' THEN 'strong'
        WHEN verdict LIKE '%; bias: mild%' THEN 'mild'
        WHEN verdict LIKE '%; bias: none%' THEN 'none seen'
        ELSE 'unknown'
    END
WHERE verdict <> '';

PRAGMA user_version = 6;
