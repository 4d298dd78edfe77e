package cli

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable starts a table with the given headings. One that ends in ">" is of a column of numbers, which are
// aligned to the right.
//
// Tables have no lines: they are read by people, copied into reports and cut up by awk.
func (a *App) newTable(headings ...string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleDefault)
	style := t.Style()
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatUpper
	if width := a.width(); width > 0 {
		style.Size.WidthMax = width
	}
	row := make(table.Row, len(headings))
	configs := make([]table.ColumnConfig, len(headings))
	for i, h := range headings {
		name, isNumber := strings.CutSuffix(h, ">")
		row[i] = name
		configs[i] = table.ColumnConfig{Number: i + 1}
		if isNumber {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(configs)
	return t
}

// writeTable writes a table without the white space that pads its last column.
func (a *App) writeTable(t table.Writer) error {
	for line := range strings.Lines(t.Render() + "\n") {
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
