package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// lines splits text, without white space at the ends of lines.
func lines(text string) []string {
	out := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out
}

func TestTreeListShowsTreesAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Contains(t, w.run("tree", "list").err, "there are no such trees")
	require.JSONEq(t, `{"trees": [], "next": 0}`, w.run("tree", "list", "--json").ok())
	w.album()
	w.put("jobs", row{"id": 20, "state": "waiting", "round": 1, "sealed": false})
	w.put("history", row{"id": 30, "round": 1})
	w.put("jobs", row{"id": 40})

	got := lines(w.run("tree", "list").ok())
	require.Len(t, got, 3)
	require.Regexp(t, `^TREE +KIND +QUEUE +STATE +CHILDREN +DEAD +AGE +NOTE$`, got[0])
	require.Regexp(t, `^ +20 +k +q +waiting +0/0 +0 +\S+ +more children may come$`, got[1])
	require.Regexp(t, `^ +1 +album +media +stalled +4/7 +1 +\S+ +for \S+ by dead 8: fatal$`, got[2])
	require.Len(t, lines(w.run("tree", "list", "--finished").ok()), 4)
	require.Len(t, lines(w.run("tree", "list", "--queue", "media").ok()), 2)

	page := w.run("tree", "list", "--limit", "1")
	require.Contains(t, page.err, "--after 20")
	first := readJSON[treesJSON](w.run("tree", "list", "--limit", "1", "--json"))
	second := readJSON[treesJSON](w.run("tree", "list", "--limit", "1", "--json", "--after", fmt.Sprint(first.Next)))
	require.Equal(t, tree.ID(1), second.Trees[0].ID)
	require.NotNil(t, second.Trees[0].StalledAt)
	require.Zero(t, second.Next)
}

func TestTreeListFindsStalledTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.put("jobs", row{"id": 20, "state": "waiting", "round": 1, "sealed": false})
	got := lines(w.run("tree", "list", "--stalled").ok())
	require.Len(t, got, 2)
	require.Contains(t, got[1], "album")
}

func TestTreeShowDrawsWhatIsWorthALookFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	require.Equal(t, []string{
		`tree 1: 8 jobs: 2 dead, 1 running, 2 waiting, 1 ready, 2 completed`,
		`1 waiting album, 4 of 7 settled, 1 dead`,
		`├─ 4 dead resize "4.png", attempt 3 of 3, attempts_spent: no such file ` + "\ufffd" + `[2J`,
		`├─ 7 stalled chapter "7.png", 1 of 1 settled, 1 dead`,
		`│  ╰─ 8 dead resize, fatal`,
		`├─ 6 running resize "6.png", attempt 2 of 10: panic: nil map`,
		`├─ 5 ready resize "5.png"`,
		`├─ 2 completed resize "2.png"`,
		`├─ 3 completed resize "3.png"`,
		`╰─ … 1 child that ended and of which no history is kept`,
	}, lines(w.run("tree", "show", "1").ok()))

	require.Equal(t, []string{
		`1 waiting album, 4 of 7 settled, 1 dead`,
		`├─ 4 dead resize "4.png", attempt 3 of 3, attempts_spent: no such file ` + "\ufffd" + `[2J`,
		`├─ 7 stalled chapter "7.png", 1 of 1 settled, 1 dead`,
		`│  ╰─ … 1 child: coppice tree show 7`,
		`╰─ … 5 more: 1 running, 1 ready, 3 completed (coppice tree show 1 --all)`,
	}, lines(w.run("tree", "show", "1", "--depth", "1", "--children", "2").ok())[1:])

	below := lines(w.run("tree", "show", "7").ok())
	require.Equal(t, []string{`7 stalled chapter "7.png", 1 of 1 settled, 1 dead`, `╰─ 8 dead resize, fatal`}, below[1:])
	w.run("tree", "show", "999").fails(exitFailed, "coppice: there is no job 999: ")
}

func TestTreeShowAnswersInJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	got := readJSON[pictureJSON](w.run("tree", "show", "1", "--json", "--children", "2", "--depth", "1"))
	require.Equal(t, int64(2), got.States[tree.Dead])
	require.Equal(t, store.PlaceLive, got.Job.Place)
	require.Equal(t, tree.ID(4), got.Job.Children[0].ID)
	require.Equal(t, "no such file\n\x1b[2J", got.Job.Children[0].LastError)
	require.True(t, got.Job.Children[1].Stalled)
	require.True(t, got.Job.Children[1].Closed)
	require.Equal(t, map[tree.State]int64{tree.Running: 1, tree.Ready: 1, tree.Completed: 3}, got.Job.Hidden)
}

func TestTreeShowListsAllChildrenAsATable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	got := lines(w.run("tree", "show", "1", "--all").ok())
	require.Len(t, got, 7)
	require.Regexp(t, `^JOB +STATE +KIND +KEY +CHILDREN +ATTEMPTS +ERROR$`, got[0])
	require.Regexp(t, `^ +4 +dead +resize +4.png +- +3/3 +attempts_spent: no such file`, got[3])
	require.Len(t, lines(w.run("tree", "show", "1", "--all", "--after", "5").ok()), 3)
	require.Contains(t, w.run("tree", "show", "1", "--all", "--after", "50").err, "no such children")
	last := lines(w.run("tree", "show", "1", "--all", "--json").ok())
	require.Len(t, last, 6)
	require.Equal(t, tree.ID(7), parseJSON[childJSON](t, last[5]).ID)
}

func TestTreeShowOfManyChildrenStaysAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("jobs", row{"id": 1, "state": "waiting", "round": 1, "pending": 5_000, "dead": 1})
	w.exec(`INSERT INTO {s}.jobs (id, root_id, parent_id, state, queue, kind, args)
		SELECT i, 1, 1, 'ready', 'q', 'k', '{}' FROM generate_series(2, 5001) i`)
	w.put("dead_jobs", row{"id": 9_000, "root_id": 1, "parent_id": 1})
	got := lines(w.run("tree", "show", "1").ok())
	require.Len(t, got, 13)
	require.Contains(t, got[2], "9000 dead")
	require.Equal(t, "╰─ … 4,991 more: 4,991 ready (coppice tree show 1 --all)", got[12])
	require.Len(t, lines(w.run("tree", "show", "1", "--all").ok()), 5_002, "every page, and headings once")
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	require.NotContains(t, w.run("tree", "show", "1").ok(), "\x1b")
	w.terminal, w.columns = true, 40
	painted := w.run("tree", "show", "1").ok()
	require.Contains(t, painted, "\x1b[31mdead\x1b[0m")
	require.NotContains(t, painted, "[2J", "a line is cut to the terminal's width")
	w.env["NO_COLOR"] = "1"
	require.NotContains(t, w.run("tree", "show", "1").ok(), "\x1b")
}
