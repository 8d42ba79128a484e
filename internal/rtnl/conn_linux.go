// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Conn is a connection to the kernel. It is not safe for concurrent use.
type Conn struct {
	sock   *netlink.KernelSocket
	link   *netlink.Conn
	port   uint32
	single Batch
	handle handle
}

// Dial opens a connection, on which the kernel checks requests strictly. This needs Linux 4.20.
func Dial(cfg Config) (*Conn, error) {
	sock, err := netlink.Open(netlink.Config{Family: netlink.Route, NetNS: cfg.NetNS, Strict: true})
	if err != nil {
		return nil, fmt.Errorf("rtnl: dial: %w", err)
	}
	c := &Conn{sock: sock, link: netlink.NewConn(sock), handle: handle{namespace: cfg.NetNS}}
	if c.port, err = sock.Port(); err != nil {
		return nil, errors.Join(fmt.Errorf("rtnl: dial: %w", err), sock.Close())
	}
	return c, nil
}

// Port returns the number by which the kernel's notifications identify changes that were made by
// this connection.
func (c *Conn) Port() uint32 { return c.port }

// Close closes the connection.
func (c *Conn) Close() error {
	c.handle.close()
	return c.link.Close()
}

// do sends the request, and calls the function each(message) for every message of the answer. The
// function must not keep the message.
func (c *Conn) do(each func(netlink.Message) error) error { return ownError(c.link.Query(each)) }

// dump is like do, but for lists. It calls the function begin() before every attempt.
func (c *Conn) dump(begin func(), each func(netlink.Message) error) error {
	return ownError(c.link.Dump(begin, each))
}

// list returns the objects of a dump for which keep returns true.
func list[T any](c *Conn, parse func([]byte) (T, error), keep func(T) bool) (objects []T, err error) {
	err = c.dump(func() { objects = nil }, func(m netlink.Message) error {
		object, err := parse(m.Data)
		if err == nil && keep(object) {
			objects = append(objects, object)
		}
		return err
	})
	return objects, err
}

// ownError converts a refusal by the kernel to an *Error.
func ownError(err error) error {
	var refused *netlink.AckError
	if errors.As(err, &refused) {
		return (*Error)(refused)
	}
	return err
}

// Batch is a list of changes that are sent together. The zero Batch is empty and ready to use. A
// Batch is not safe for concurrent use. Changes are independent: if the kernel refuses one, it
// still makes those after it.
type Batch struct{ netlink.Batch }

// Encoded returns the encoded messages. They are valid until the batch changes. The last message
// requests an acknowledgement.
func (b *Batch) Encoded() []byte {
	if b.Len() > 0 {
		b.Close()
		b.Flag(unix.NLM_F_ACK)
	}
	data, _ := b.Data()
	return data
}

// Do sends all changes of the batch, many in one system call. For each change that the kernel
// refuses, Do calls the function failed(i, err), in the order of the changes. The argument i is the
// index of the change in the batch, and err is an *Error. The kernel has made the other changes. If
// Do itself returns an error, it is unknown which changes the kernel has made.
func (c *Conn) Do(b *Batch, failed func(i int, err error)) error {
	return c.link.Do(&b.Batch, func(i int, refused *netlink.AckError) { failed(i, (*Error)(refused)) })
}

// one makes a single change.
func (c *Conn) one(fill func(b *Batch)) (err error) {
	c.single.Reset()
	fill(&c.single)
	broken := c.Do(&c.single, func(_ int, refused error) { err = refused })
	return errors.Join(broken, err)
}
