package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
)

func TestExplainSaysInWordsAndDataWhatATreeWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.plant()
	got := w.run("tree", "explain", ids[3].String()).ok()
	require.Contains(t, got, "it waits for 2 live children: "+ids[1].String()+" chore (waiting), "+ids[4].String()+" chore (ready)")
	require.Contains(t, got, "no live worker serves queue default")
	require.Contains(t, got, "it is due in 59m")
	require.Equal(t, 1, len(lines(w.run("tree", "explain", ids[0].String(), "--jobs", "1").ok()))-1)
	w.run("tree", "hold", ids[0].String(), "--actor", "ann", "--reason", "look first").ok()
	one := readJSON[[]explanationJSON](w.run("job", "explain", ids[4].String(), "--json"))
	require.Len(t, one, 1)
	require.Equal(t, store.BecauseHeld, one[0].Reasons[0].Because)
	require.Equal(t, "ann", one[0].Reasons[0].Actor)
	require.Regexp(t, `^it is held since .* UTC by ann, look first$`, one[0].Reasons[0].Text)
	w.run("tree", "cancel", ids[0].String(), "--yes").ok()
	require.Contains(t, w.run("job", "explain", ids[2].String()).ok(), "it has ended since")
	w.run("job", "explain", "999999").fails(1, "there is no job 999999")
	w.run("tree", "explain", ids[0].String(), "--jobs", "0").fails(2, "--jobs")
}
