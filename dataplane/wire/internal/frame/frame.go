// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// ErrTooLong is wrapped by errors about messages that are longer than the limit.
var ErrTooLong = errors.New("message too long")

// headerSize is the size in bytes of the length that precedes a message.
const headerSize = 4

// Conn reads and writes messages on a connection.
type Conn struct {
	conn   net.Conn
	reader *bufio.Reader
	in     []byte

	mu    sync.Mutex
	out   []byte
	limit uint32
	// writeTimeout is the maximum time of the write of one message.
	writeTimeout time.Duration
}

// New returns a Conn. limit is the maximum length of a message in bytes, and writeTimeout is the
// maximum time of one Write.
func New(conn net.Conn, limit uint32, writeTimeout time.Duration) *Conn {
	const buffer = 64 << 10
	return &Conn{conn: conn, reader: bufio.NewReaderSize(conn, buffer), limit: limit, writeTimeout: writeTimeout}
}

// Limit lowers the maximum length of a message, in both directions.
func (c *Conn) Limit(limit uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = min(c.limit, limit)
}

// Read reads a message. Its errors wrap ErrTooLong for a message over the limit, and io.EOF or
// io.ErrUnexpectedEOF if the connection ends.
func (c *Conn) Read(m proto.Message) error {
	var header [headerSize]byte
	if _, err := io.ReadFull(c.reader, header[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(header[:])
	if limit := c.currentLimit(); length > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, length, limit)
	}
	if uint32(cap(c.in)) < length {
		c.in = make([]byte, length)
	}
	body := c.in[:length]
	if _, err := io.ReadFull(c.reader, body); err != nil {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return proto.Unmarshal(body, m)
}

func (c *Conn) currentLimit() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}

// Write writes a message. Its errors wrap ErrTooLong for a message over the limit, and
// os.ErrDeadlineExceeded if the peer does not read.
func (c *Conn) Write(m proto.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := proto.MarshalOptions{}.MarshalAppend(append(c.out[:0], make([]byte, headerSize)...), m)
	if err != nil {
		return err
	}
	c.out = out
	length := len(out) - headerSize
	if uint64(length) > uint64(c.limit) {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, length, c.limit)
	}
	binary.BigEndian.PutUint32(out, uint32(length))
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.writeTimeout)); err != nil {
		return err
	}
	_, err = c.conn.Write(out)
	return err
}

// Close closes the connection. Calls of Read and Write that wait return an error.
func (c *Conn) Close() error { return c.conn.Close() }
