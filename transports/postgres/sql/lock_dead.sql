-- $1 queue, $2 ids, NULL for all, $3 the last id, $4 how many at most, $5 whether edited and unapproved ones count.
-- Locks dead letters that no operation holds, in the order of their ids.
SELECT d.id
FROM {schema}.dead AS d
WHERE d.queue = $1 AND ($2::bigint[] IS NULL OR d.id = ANY ($2)) AND d.id <= $3
      AND ($5 OR (d.edited_as IS NULL AND NOT d.unapproved))
      AND NOT EXISTS (
          SELECT 1 FROM {schema}.operations AS o
          WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')
      )
ORDER BY d.id
LIMIT $4
FOR UPDATE OF d
