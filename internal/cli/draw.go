package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/list"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// twigs is how branches are joined.
func twigs() list.Style {
	return list.Style{
		CharItemSingle:   "╰─",
		CharItemTop:      "├─",
		CharItemFirst:    "├─",
		CharItemMiddle:   "├─",
		CharItemVertical: "│  ",
		CharItemBottom:   "╰─",
		CharNewline:      "\n",
	}
}

// draw writes a picture for people.
func (a *App) draw(p *picture) error {
	_, err := fmt.Fprintln(a.Out, strings.Join(a.lines(p), "\n"))
	return err
}

// lines draws a picture, a job a line, no line wider than the terminal.
func (a *App) lines(p *picture) []string {
	lines := []string{a.summary(p), a.describe(p.top)}
	l := list.NewWriter()
	l.SetStyle(twigs())
	a.hang(l, p.top)
	if l.Length() > 0 {
		lines = append(lines, strings.Split(l.Render(), "\n")...)
	}
	if width := a.width(); width > 0 {
		for i, line := range lines {
			lines[i] = snip(line, width)
		}
	}
	return lines
}

// hang puts the children of b, and what is known of those that are not shown, under it.
func (a *App) hang(l list.Writer, b *branch) {
	for _, c := range b.children {
		l.AppendItem(a.describe(c))
		if len(c.children) > 0 || c.remainder() != "" {
			l.Indent()
			a.hang(l, c)
			l.UnIndent()
		}
	}
	if rest := b.remainder(); rest != "" {
		l.AppendItem(a.paint(a.OutTerminal, faint, rest))
	}
}

// summary counts the jobs of the whole tree.
func (a *App) summary(p *picture) string {
	var total int64
	for _, n := range p.counts.States {
		total += n
	}
	atLeast := ""
	if p.counts.More {
		atLeast = "at least "
	}
	return fmt.Sprintf("tree %d: %s%s: %s", p.root, atLeast, plural(total, "job", "jobs"), countStates(p.counts.States))
}

// describe is the line of one job.
func (a *App) describe(b *branch) string {
	state := b.State
	if b.Stalled {
		state = stalled
	}
	words := []string{b.ID.String(), a.state(state), oneLine(b.Kind, 60)}
	if b.ChildKey != "" {
		words = append(words, fmt.Sprintf("%q", oneLine(b.ChildKey, 80)))
	}
	line := strings.Join(words, " ")
	if kids := children(b.Round, b.Counters); kids != "" {
		line += ", " + kids
	}
	if b.Attempt > 1 || b.Attempt == 1 && b.LastError != "" && b.State.Live() {
		line += fmt.Sprintf(", attempt %d of %d", b.Attempt, b.MaxAttempts)
	}
	if b.Held {
		line += ", held"
	}
	if b.Reason != "" {
		line += ", " + string(b.Reason)
	}
	if b.LastError != "" {
		line += ": " + a.paint(a.OutTerminal, red, oneLine(b.LastError, 160))
	}
	return line
}

// remainder is the line about the children of b that are not shown; nothing if all are.
func (b *branch) remainder() string {
	var more int64
	for _, n := range b.hidden {
		more += n
	}
	switch {
	case b.closed && totalOf(b.Counters) > 0:
		return fmt.Sprintf("… %s: coppice tree show %d", plural(totalOf(b.Counters), "child", "children"), b.ID)
	case more > 0:
		return fmt.Sprintf("… %s more: %s (coppice tree show %d --all)", count(more), countStates(b.hidden), b.ID)
	case b.gone > 0:
		return fmt.Sprintf("… %s that ended and of which no history is kept", plural(b.gone, "child", "children"))
	}
	return ""
}

func totalOf(c store.Counters) int {
	return c.Pending + c.Completed + c.Dead + c.Cancelled
}

// countStates lists how many jobs are in which state, in the order of a person's interest.
func countStates(states map[tree.State]int64) string {
	var said []string
	for _, s := range []tree.State{tree.Dead, tree.Running, tree.Waiting, tree.Ready, tree.Scheduled, uncounted, tree.Cancelled, tree.Completed} {
		if n := states[s]; n > 0 {
			said = append(said, count(n)+" "+string(s))
		}
	}
	return strings.Join(slices.Clip(said), ", ")
}
