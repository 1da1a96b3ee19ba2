-- $1 ids of dead letters that are locked, $2 whether edited and unapproved ones count. Tells the ordering keys of those
-- that no operation holds: one may have taken some before they were locked.
SELECT d.id, (SELECT m.ordering_key FROM {schema}.messages AS m WHERE m.seq = d.seq)
FROM {schema}.dead AS d
WHERE d.id = ANY ($1) AND ($2 OR (d.edited_as IS NULL AND NOT d.unapproved))
      AND NOT EXISTS (
          SELECT 1 FROM {schema}.operations AS o
          WHERE o.id = d.operation AND o.state NOT IN ('cancelled', 'ended', 'void')
      )
ORDER BY d.id
