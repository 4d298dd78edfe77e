package store_test

import (
	"testing"

	"github.com/coppicehq/coppice/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
