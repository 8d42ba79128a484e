// SPDX-License-Identifier: Apache-2.0

package felix

import (
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// headerSize is the size in bytes of the length that precedes a message.
const headerSize = 8

// appendFrame appends a message, preceded by its length.
func appendFrame(buf []byte, m proto.Message) ([]byte, error) {
	start := len(buf)
	buf, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(buf, make([]byte, headerSize)...), m)
	if err != nil {
		return buf[:start], err
	}
	binary.LittleEndian.PutUint64(buf[start:], uint64(len(buf)-start-headerSize))
	return buf, nil
}

// readFrame reads a message of at most limit bytes. It returns io.EOF if the input ends before the
// message.
func readFrame(r io.Reader, limit uint64, m proto.Message) error {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint64(header[:])
	if length > limit {
		return fmt.Errorf("a message of %d bytes, at most %d", length, limit)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("a message of %d bytes: %w", length, err)
	}
	return proto.Unmarshal(data, m)
}
