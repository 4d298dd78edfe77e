package migrations_test

import (
	"os"
	"testing"
)

// testURL returns the URL of a database that a superuser may create others in.
func testURL(t testing.TB) string {
	t.Helper()
	url := os.Getenv("COPPICE_TEST_DATABASE_URL")
	if url == "" {
		t.Skip("COPPICE_TEST_DATABASE_URL is not set")
	}
	return url
}
