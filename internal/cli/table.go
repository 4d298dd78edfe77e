package cli

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// grid is a table that knows which of its columns may be shortened.
type grid struct {
	table.Writer

	columns []table.ColumnConfig
	elastic []int // of columns
}

// newTable starts a table with the given headings. One that ends in ">" is of a column of numbers, which are
// aligned to the right; one that ends in "~" is of names, which may be shortened for a narrow terminal.
//
// Tables have no lines: they are read by people, copied into reports and cut up by awk.
func (a *App) newTable(headings ...string) *grid {
	g := &grid{Writer: table.NewWriter(), columns: make([]table.ColumnConfig, len(headings))}
	g.SetStyle(table.StyleDefault)
	style := g.Style()
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatUpper
	row := make(table.Row, len(headings))
	for i, h := range headings {
		name, isNumber := strings.CutSuffix(h, ">")
		name, isName := strings.CutSuffix(name, "~")
		row[i] = name
		g.columns[i] = table.ColumnConfig{Number: i + 1}
		if isNumber {
			g.columns[i].Align, g.columns[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		if isName {
			g.elastic = append(g.elastic, i)
		}
	}
	g.AppendHeader(row)
	g.SetColumnConfigs(g.columns)
	return g
}

// fit makes a table as narrow as the terminal, if need be: first it moves the columns together, then it shortens names,
// and last it cuts off what is on the right.
func (g *grid) fit(width int) {
	style := g.Style()
	if g.widest() > width {
		style.Box.PaddingRight = " "
	}
	const longest, shortest, step = 40, 8, 4
	for limit := longest; limit >= shortest && g.widest() > width; limit -= step {
		for _, i := range g.elastic {
			g.columns[i].WidthMax, g.columns[i].WidthMaxEnforcer = limit, snip
		}
		g.SetColumnConfigs(g.columns)
	}
	style.Size.WidthMax = width
}

func snip(s string, width int) string { return text.Snip(s, width, "…") }

// widest is how many columns of a terminal the table takes.
func (g *grid) widest() int {
	most := 0
	for line := range strings.Lines(g.Render()) {
		most = max(most, text.StringWidthWithoutEscSequences(strings.TrimRight(line, " \n")))
	}
	return most
}

// writeTable writes a table without the white space that pads its last column.
func (a *App) writeTable(g *grid) error {
	if width := a.width(); width > 0 {
		g.fit(width)
	}
	for line := range strings.Lines(g.Render() + "\n") {
		if _, err := fmt.Fprintln(a.Out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// fact is one line of a description.
type fact struct{ name, value string }

// writeFacts writes what describes one thing: names on the left, values on the right. Facts
// without a value are left out.
func (a *App) writeFacts(facts ...fact) error {
	longest := 0
	for _, f := range facts {
		if f.value != "" {
			longest = max(longest, len(f.name))
		}
	}
	for _, f := range facts {
		if f.value == "" {
			continue
		}
		value := strings.ReplaceAll(strings.TrimRight(f.value, "\n"), "\n", "\n"+strings.Repeat(" ", longest+2))
		if _, err := fmt.Fprintf(a.Out, "%-*s  %s\n", longest, f.name, value); err != nil {
			return err
		}
	}
	return nil
}

// oneLine makes text fit into a cell: the first so many runes of it, without line breaks or anything else that
// a terminal would act upon.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0: // control characters can repaint a terminal
			return '\ufffd'
		}
		return r
	}, s)
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
