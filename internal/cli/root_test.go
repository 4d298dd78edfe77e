package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// commands returns every command of ours. Cobra's own help and completion are its business.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, commands(c)...)
	}
	return all
}

func TestEveryCommandTeaches(t *testing.T) {
	t.Parallel()
	for _, cmd := range commands((&App{}).root()) {
		path := cmd.CommandPath()
		require.NotEmpty(t, cmd.Short, path)
		require.Greater(t, len(cmd.Long), len(cmd.Short), path)
		require.Contains(t, cmd.Example, "  coppice", path)
		require.NotNil(t, cmd.RunE, path)
		require.NotNil(t, cmd.Args, "%s checks its arguments", path)
		for line := range strings.Lines(cmd.Long) {
			require.LessOrEqual(t, len(line), 120, "%s: a line is too wide for a terminal", path)
		}

		help := newShell(t).run(append(strings.Fields(path)[1:], "--help")...).ok()
		require.Contains(t, help, cmd.Long)
		require.Contains(t, help, "Examples:")
	}
}

func TestTheCommandLineIsChecked(t *testing.T) {
	t.Parallel()
	for _, cmd := range commands((&App{}).root()) {
		words := strings.Fields(cmd.CommandPath())[1:]
		newShell(t).run(append(words, "--no-such-flag")...).fails(exitUsage, "unknown flag: --no-such-flag (see "+cmd.CommandPath()+" --help)")
		newShell(t).run(append(words, "1", "surplus")...).fails(exitUsage, "coppice: un")
	}
	for words, says := range map[string]string{
		"tre":                                    `unknown command "tre", did you mean "tree"?`,
		"tree shwo":                              `unknown command "shwo", did you mean "show"?`,
		"tree frobnicate":                        `unknown command "frobnicate" (see coppice tree --help)`,
		"tree show":                              "ID is missing",
		"tree show x":                            `"x" is no job id`,
		"tree show 0":                            "ids start at 1",
		"tree show 99999999999999999999":         "it is too large",
		"foo":                                    `unknown command "foo" (see coppice --help)`,
		"help nope":                              `unknown command "nope" (see coppice --help)`,
		"help tree shwo":                         `unknown command "shwo", did you mean "show"?`,
		"completion nope":                        `unknown command "nope" (see coppice completion --help)`,
		"tree show 1 --children 0":               "outside 1 to 1000",
		"tree show 1 --depth -1":                 "below 0",
		"tree show 1 --after 3":                  "--after goes with --all",
		"tree list --limit 1001":                 "outside 1 to 1000",
		"tree list --stalled --finished":         "exclude each other",
		"tree watch 1 --every 1ms":               "below 100ms",
		"job show 1 --failures -1":               "outside 0",
		"doctor --rows 0":                        "outside 1",
		"tree list --limit lots":                 `--limit: "lots" is not a whole number (see`,
		"tree list --limit 99999999999999999999": "--limit: 99999999999999999999 is too large (see",
		"tree watch 1 --every soon":              `--every: "soon" is not a time, as in 10s`,
		"doctor --json=perhaps":                  "invalid argument",
		"migrate down --to -1":                   "below 0",
	} {
		newShell(t).run(strings.Fields(words)...).fails(exitUsage, says)
	}
}

func TestGroupsPrintTheirHelp(t *testing.T) {
	t.Parallel()
	require.Contains(t, newShell(t).run().ok(), "Exit codes:")
	require.Contains(t, newShell(t).run("tree").ok(), "watch")
}

func TestShellCompletionIsThere(t *testing.T) {
	t.Parallel()
	require.Contains(t, newShell(t).run("completion", "bash").ok(), "__start_coppice")
	require.Contains(t, newShell(t).run("__complete", "tree", "").ok(), "watch\t")
}

func TestTheCommandsThatAnswerInJSON(t *testing.T) {
	t.Parallel()
	var with []string
	for _, cmd := range commands((&App{}).root()) {
		if cmd.Flags().Lookup("json") != nil {
			with = append(with, cmd.CommandPath())
		}
	}
	slices.Sort(with)
	require.Equal(t, []string{
		"coppice bench flat", "coppice bench stream", "coppice bench trees", "coppice db status", "coppice demo", "coppice doctor", "coppice job cancel", "coppice job explain", "coppice job hold", "coppice job priority", "coppice job release", "coppice job run-now", "coppice job show",
		"coppice limit delete", "coppice limit list", "coppice limit set",
		"coppice migrate status", "coppice queue limit", "coppice queue list",
		"coppice queue pause", "coppice queue resume",
		"coppice tree cancel", "coppice tree explain", "coppice tree hold", "coppice tree list", "coppice tree priority", "coppice tree release",
		"coppice tree run-now", "coppice tree show", "coppice tree watch", "coppice version",
	}, with)
}

func TestVersionNamesTheBuild(t *testing.T) {
	t.Parallel()
	b := readJSON[build](newShell(t).run("version", "--json"))
	require.NotEmpty(t, b.Version)
	require.True(t, strings.HasPrefix(b.Go, "go"))
	require.Positive(t, b.Schema)
	require.Contains(t, newShell(t).run("version").ok(), b.Go)
	require.Contains(t, newShell(t).run("--version").ok(), b.Version)
}
