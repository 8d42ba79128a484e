// SPDX-License-Identifier: Apache-2.0

package nfnl

import "github.com/wayleave/wayleave/internal/netlink"

// Event is one notification: that an object changed, or that a transaction is over.
type Event struct {
	// Port is the netlink port of the socket that sent the transaction; zero if the kernel made the
	// change.
	Port uint32
	// Table that something changed in, and its family. Empty at the end of a transaction.
	Table  string
	Family uint8
	// Generation after the transaction, at its end; otherwise zero. Generations have no gaps unless
	// notifications were lost.
	Generation uint32
	// PID and Process are the id, in the initial PID namespace, and the name of the process that
	// made the change, at the end of a transaction.
	PID     uint32
	Process string
}

// eventOf decodes a notification.
func eventOf(m Message) (e Event) {
	e.Port = m.Port
	if m.Type == msgNewGen {
		e.Generation = netlink.Number32(netlink.FindAttr(m.Attrs, attrGenID))
		e.PID = netlink.Number32(netlink.FindAttr(m.Attrs, attrGenPID))
		e.Process = netlink.Text(netlink.FindAttr(m.Attrs, attrGenName))
		return e
	}
	const table = 1 // NFTA_TABLE_NAME, NFTA_CHAIN_TABLE and so on: the same number in all of them
	e.Table, e.Family = netlink.Text(netlink.FindAttr(m.Attrs, table)), m.Family
	return e
}
