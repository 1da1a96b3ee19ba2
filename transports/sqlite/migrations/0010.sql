-- The message that was accepted under an id; NULL for what is from before this version.
ALTER TABLE bezoar_once ADD COLUMN seq INTEGER;
