-- Lists of everything go by id where a dead letter died here, which is their order of death, so that dead-lettering
-- pays for no index by time. Only those that arrived later than they died have one.
DROP INDEX bezoar_dead_by_death;
CREATE INDEX bezoar_dead_late_by_death ON bezoar_dead (died_at) WHERE died_at < at;
