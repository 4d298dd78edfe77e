package tree

import (
	"strings"
	"unicode/utf8"
)

// Limits of the text that records a failure, in bytes.
const (
	MaxErrorBytes = 8 << 10  // of an error's text: 8 KiB
	MaxStackBytes = 16 << 10 // of a panic's stack: 16 KiB
)

// CleanText makes any string storable as PostgreSQL text, so that writing down a failure cannot fail: NUL
// becomes U+2400 (its picture), bytes that are not UTF-8 become U+FFFD, and what is over limit bytes
// is cut from the middle, where errors say least, with "[...]" in its place.
func CleanText(s string, limit int) string {
	if len(s) > 2*limit {
		// Cut before looking at every byte: the text may be megabytes long.
		s = cutMiddle(s, limit)
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\u2400")
	if len(s) > limit {
		s = cutMiddle(s, limit)
	}
	return s
}

// cutMiddle keeps the head and the tail of s within limit bytes, on rune borders.
func cutMiddle(s string, limit int) string {
	const note = " [...] "
	if limit <= len(note) {
		return Clip(s, limit)
	}
	keep := limit - len(note)
	head := Clip(s, keep*3/4)
	tail := s[len(s)-(keep-len(head)):]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + note + tail
}

// Clip returns the longest prefix of s that has at most limit bytes and does not end inside a rune.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
