package tree

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckJSON reports why raw, which must be JSON that encoding/json made or accepted, cannot be stored and
// read back as it is: longer than limit bytes, nested deeper than [MaxJSONDepth], not UTF-8, or holding
// an escape (\u0000, a lone surrogate) that PostgreSQL refuses as text. Nil means it can.
func CheckJSON(raw []byte, limit int) error {
	if len(raw) > limit {
		return fmt.Errorf("%d bytes of JSON are more than %d", len(raw), limit)
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("are not valid UTF-8")
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			if i++; i < len(raw) && raw[i] == 'u' {
				skip, err := checkEscape(raw[i-1:])
				if err != nil {
					return err
				}
				i += skip
			}
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxJSONDepth {
				return fmt.Errorf("are nested deeper than %d levels", MaxJSONDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// checkEscape checks the \u escape that b starts with, and says how many bytes after the "u" it takes.
func checkEscape(b []byte) (int, error) {
	r, ok := escapedRune(b)
	switch {
	case !ok:
		return 0, fmt.Errorf("hold a broken \\u escape")
	case r == 0:
		return 0, fmt.Errorf("hold a NUL character (\\u0000), which PostgreSQL cannot store")
	case !utf16.IsSurrogate(r):
		return 4, nil
	}
	if low, ok := escapedRune(b[min(6, len(b)):]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		return 10, nil
	}
	return 0, fmt.Errorf("hold half of a surrogate pair (%s), which is no character", b[:6])
}

func escapedRune(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}

// CheckStrings finds strings in v that encoding/json had to mend to make raw of it, because they are not valid
// UTF-8: what is stored would not be what was given. It writes such bytes as the escape \ufffd, and a
// real U+FFFD as itself, so the walk through v is only made for the rare JSON that holds the escape.
func CheckStrings(v any, raw []byte) error {
	if !bytes.Contains(raw, []byte(`\ufffd`)) {
		return nil
	}
	if !validStrings(reflect.ValueOf(v), 0) {
		return fmt.Errorf("hold a string that is not valid UTF-8; encode bytes as []byte")
	}
	return nil
}

// maxValueDepth bounds the walk through a value: a level of JSON may be several of Go (an interface, a
// pointer, an embedded struct), and what encoding/json leaves out may be a cycle.
const maxValueDepth = 20 * MaxJSONDepth

func validStrings(v reflect.Value, depth int) bool {
	if !v.IsValid() || depth > maxValueDepth {
		return true
	}
	if encodesItself(v) {
		return true // its own encoder decided what to write
	}
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return validStrings(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && !validStrings(v.Field(i), depth+1) {
				return false
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key := it.Key()
			if key.Kind() == reflect.String && !utf8.ValidString(key.String()) {
				return false // also where it has an encoder, which encoding/json does not ask for keys
			}
			if !validStrings(key, depth+1) || !validStrings(it.Value(), depth+1) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !validStrings(v.Index(i), depth+1) {
				return false
			}
		}
	}
	return true
}

// encodesItself reports whether encoding/json asks v for its JSON. It takes the methods of *T for what it
// can take the address of.
func encodesItself(v reflect.Value) bool {
	types := []reflect.Type{v.Type()}
	if v.CanAddr() {
		types = append(types, reflect.PointerTo(v.Type()))
	}
	for _, t := range types {
		if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return true
		}
	}
	return false
}
