package sourcestats

import "bytes"

// lineCounter counts lines and comment lines in text that comes in pieces of any size. It keeps a few
// bytes of state, however long a line is.
//
// A line ends with a line feed; bytes after the last one are a line too. So CRLF ends one line, an
// empty file has none, and a last line without a line feed counts like one with it. (A carriage return alone
// is white space.)
//
// A comment line holds comment and no code. Only comments that begin their line are seen, after
// white space or another comment. It is a rule for text, not a parser: a comment that starts behind code goes
// unnoticed, and a line of a raw string that looks like a comment is taken for one. In return the "/*"
// of a glob in a string does not turn the rest of the file into a comment.
type lineCounter struct {
	style           style
	lines, comments int64

	mode    mode
	partial bool   // the current line has bytes
	comment bool   // the current line has comment
	recent  []byte // the newest bytes, which may become a mark: one that begins a comment, or in a block ends it
}

// mode says what the current byte belongs to.
type mode int

const (
	margin mode = iota // before the first code of a line
	code               // code, up to the line's end
	note               // a comment up to the line's end
	block              // a comment up to its closing mark
)

func (c *lineCounter) write(p []byte) {
	for len(p) > 0 {
		if c.mode == code || c.mode == note { // only the line's end matters now
			end := bytes.IndexByte(p, '\n')
			c.partial = c.partial || end != 0
			if end < 0 {
				return
			}
			p = p[end:]
		}
		c.next(p[0])
		p = p[1:]
	}
}

func (c *lineCounter) next(b byte) {
	if b == '\n' {
		c.endLine()
		return
	}
	c.partial = true
	switch c.mode {
	case margin:
		c.inMargin(b)
	case block:
		c.inBlock(b)
	}
}

func (c *lineCounter) inMargin(b byte) {
	if len(c.recent) == 0 && blank(b) {
		return
	}
	c.recent = append(c.recent, b)
	switch c.style.read(string(c.recent)) {
	case openMark:
		c.mode, c.comment, c.recent = block, true, c.recent[:0]
	case lineMark:
		c.mode, c.comment = note, true
	case noMark:
		c.mode = code
	}
}

func (c *lineCounter) inBlock(b byte) {
	c.comment = c.comment || !blank(b) // a blank line is no comment line, in a block neither
	c.recent = append(c.recent, b)
	if extra := len(c.recent) - len(c.style.close); extra > 0 {
		c.recent = append(c.recent[:0], c.recent[extra:]...)
	}
	if string(c.recent) == c.style.close {
		c.mode, c.recent = margin, c.recent[:0]
	}
}

func (c *lineCounter) endLine() {
	c.lines++
	begunMark := c.mode == margin && len(c.recent) > 0 // such as a lone slash
	if c.comment && c.mode != code && !begunMark {
		c.comments++
	}
	if c.mode != block {
		c.mode = margin
	}
	c.recent, c.comment, c.partial = c.recent[:0], false, false
}

// close ends the text.
func (c *lineCounter) close() {
	if c.partial {
		c.endLine()
	}
}

func blank(b byte) bool {
	return b == ' ' || b == '\t' || b == '\r' || b == '\v' || b == '\f'
}
