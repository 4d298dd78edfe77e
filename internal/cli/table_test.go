package cli

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/require"
)

func TestATableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	draw := func(columns int) string {
		var out strings.Builder
		a := &App{Out: &out, OutTerminal: columns > 0, Size: func() (int, int) { return columns, 24 }}
		g := a.newTable("id>", "kind~", "queue~", "note")
		g.AppendRow(table.Row{4711, "sourcestats.folder", "demo-20261130-215425-30528", "stalled"})
		require.NoError(t, a.writeTable(g))
		return out.String()
	}
	const whole = "  ID  KIND                QUEUE                       NOTE\n" +
		"4711  sourcestats.folder  demo-20261130-215425-30528  stalled\n"
	require.Equal(t, whole, draw(0), "a pipe gets everything")
	require.Equal(t, whole, draw(80))
	require.Equal(t, "  ID KIND               QUEUE                      NOTE\n"+
		"4711 sourcestats.folder demo-20261130-215425-30528 stalled\n", draw(60), "first the columns move together")
	require.Equal(t, "  ID KIND         QUEUE        NOTE\n"+
		"4711 sourcestats… demo-202611… stalled\n", draw(40), "then names are shortened")
	require.Equal(t, "  ID KIND     QUEU ~\n"+
		"4711 sources… demo ~\n", draw(20), "at last the right is cut off")
}
