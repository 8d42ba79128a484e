// SPDX-License-Identifier: Apache-2.0

package nfnl

// Finish returns the bytes that Commit would send.
func Finish(b *Batch) ([]byte, error) {
	whole, _, err := b.finish()
	return whole, err
}

// ParseMessages reads a datagram as from the kernel and returns how many messages it has.
func ParseMessages(datagram []byte) (n int, err error) {
	for len(datagram) > 0 {
		var m Message
		if m, datagram, err = NextMessage(datagram); err != nil {
			return n, err
		}
		_, _ = eventOf(m)
		n++
	}
	return n, nil
}
