-- +goose Up
-- +goose ENVSUB ON
CREATE TABLE "${COPPICE_SCHEMA:-coppice}".jobs (
	id bigint NOT NULL PRIMARY KEY,
	kind text NOT NULL
);

-- +goose Down
DROP TABLE "${COPPICE_SCHEMA:-coppice}".jobs;
