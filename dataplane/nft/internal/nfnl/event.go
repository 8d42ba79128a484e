// SPDX-License-Identifier: Apache-2.0

package nfnl

import "github.com/wayleave/wayleave/internal/netlink"

// Event is one notification: an object has changed, or a transaction is complete.
type Event struct {
	// Port is the netlink port of the socket that sent the transaction. It is zero if the kernel
	// itself made the change.
	Port uint32
	// Table is the table with the changed object. Family is the family of this table. Both are
	// empty in the event at the end of a transaction.
	Table  string
	Family uint8
	// Generation is the generation that the transaction made. It is zero in all events except the
	// one at the end of a transaction. Unless notifications are lost, generations have no gaps.
	Generation uint32
	// PID is the id of the process that made the change, in the initial PID namespace. Process is
	// the name of this process. They are set only in the event at the end of a transaction.
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
