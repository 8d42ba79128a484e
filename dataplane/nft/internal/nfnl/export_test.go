// SPDX-License-Identifier: Apache-2.0

package nfnl

import "github.com/wayleave/wayleave/internal/netlink"

// Finish returns the bytes that Commit would send.
func Finish(b *Batch) ([]byte, error) {
	whole, _, err := b.finish()
	return whole, err
}

// ParseMessages reads a datagram as from the kernel and returns how many messages it has.
func ParseMessages(datagram []byte) (n int, err error) {
	for len(datagram) > 0 {
		var m netlink.Message
		if datagram, err = m.Read(datagram); err != nil {
			return n, err
		}
		if parsed, ok, _ := parse(&m); ok {
			_ = eventOf(parsed)
		}
		_ = m.Refusal()
		n++
	}
	return n, nil
}
