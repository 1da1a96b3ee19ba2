-- A checksum of what the sender made, compared before a message is delivered. NULL for messages that were
-- stored before there was one: those are not compared.
ALTER TABLE bezoar_messages ADD COLUMN checksum INTEGER;
