package sourcestats

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Sum is a SHA-256 checksum. It is written as 64 hexadecimal digits.
type Sum [sha256.Size]byte

// String returns the sum in lower-case hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText is String, for JSON.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("a SHA-256 sum has %d hexadecimal digits, not %d", hex.EncodedLen(len(s)), len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}
