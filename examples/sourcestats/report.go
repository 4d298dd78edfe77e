package sourcestats

import (
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Report is what is said about a folder in the end. Its JSON is the same with numbers.
type Report struct {
	Root string `json:"root"` // the folder that was counted
	FolderStats
}

// Text writes the report for people: the totals, then the largest folders.
func (r Report) Text(w io.Writer) error {
	totals := newTable("Totals of " + r.Root)
	totals.AppendRows([]table.Row{
		{"files", count(r.Files)},
		{"folders", count(r.Folders)},
		{"bytes", count(r.Bytes)},
		{"lines", count(r.Lines)},
		{"comment lines", count(r.CommentLines)},
	})
	if r.Missing > 0 {
		totals.AppendRow(table.Row{"jobs without a result", count(r.Missing)})
	}
	totals.AppendRow(table.Row{"SHA-256", r.Sum.String()[:16] + "..."})

	largest := newTable("Largest folders, by the files directly in them")
	largest.AppendHeader(table.Row{"folder", "files", "bytes", "lines", "comment lines"})
	for _, f := range r.Largest {
		largest.AppendRow(table.Row{f.Path, count(f.Files), count(f.Bytes), count(f.Lines), count(f.CommentLines)})
	}
	_, err := io.WriteString(w, totals.Render()+"\n\n"+largest.Render()+"\n")
	return err
}

// newTable returns a table whose first column is words and whose others are numbers.
func newTable(title string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Title.Align = text.AlignLeft
	t.Style().Format.Header = text.FormatDefault // as written: shouting helps nobody
	t.SetTitle(title)
	var columns []table.ColumnConfig
	for n := 2; n <= 5; n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}

// count writes a number in groups of three digits.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
