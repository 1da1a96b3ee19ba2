-- Rejections are found by the ids that an operator has at hand, the newest first, without reading the others.
ALTER TABLE bezoar_announced ADD COLUMN correlation_id TEXT;
UPDATE bezoar_announced
    SET correlation_id = (SELECT m.correlation_id FROM bezoar_messages AS m WHERE m.seq = bezoar_announced.seq);
CREATE INDEX bezoar_announced_by_message ON bezoar_announced (message_id, at, seq);
CREATE INDEX bezoar_announced_by_correlation ON bezoar_announced (correlation_id, at, seq)
    WHERE correlation_id IS NOT NULL;
