// SPDX-License-Identifier: Apache-2.0

package nfnl

// ParseReplies reads a datagram as from the kernel and returns how many messages it has.
func ParseReplies(datagram []byte) (int, error) {
	replies, err := parseReplies(datagram)
	return len(replies), err
}
