package sourcestats

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Report is what is said about a folder in the end. Its JSON is the same with numbers.
type Report struct {
	Root  string `json:"root"`            // the folder that was counted
	Limit int    `json:"limit,omitempty"` // only its first so many files; 0: all
	FolderStats
}

// Text writes the report for people: the totals, then the largest folders.
func (r Report) Text(w io.Writer) error {
	totals := newTable()
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

	largest := newTable()
	largest.AppendHeader(table.Row{"folder", "files", "bytes", "lines", "comments"})
	for _, f := range r.Largest {
		largest.AppendRow(table.Row{shorten(f.Path), count(f.Files), count(f.Bytes), count(f.Lines), count(f.CommentLines)})
	}
	_, err := fmt.Fprintf(w, "Totals of %s\n%s\n\nLargest folders, by the files directly in them\n%s\n",
		r.Root, totals.Render(), largest.Render())
	return err
}

// pathWidth keeps the table of folders within a terminal of 80 columns.
const pathWidth = 33

// shorten leaves out the middle of a long path: its beginning says where it is, its end what.
func shorten(path string) string {
	runes := []rune(path)
	if len(runes) <= pathWidth {
		return path
	}
	return string(runes[:pathWidth/3]) + "…" + string(runes[len(runes)-(pathWidth-pathWidth/3-1):])
}

// newTable returns a table whose first column is words and whose others are numbers.
func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault // as written: shouting helps nobody
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
