// SPDX-License-Identifier: Apache-2.0

package nfnl

import "github.com/wayleave/wayleave/internal/netlink"

// Event is one notification: that an object changed, or that a transaction is over.
type Event struct {
	// Port is the netlink port of the socket that the transaction came through; zero if the kernel did it by itself.
	Port uint32
	// Table that something changed in, and its family. Empty at the end of a transaction.
	Table  string
	Family uint8
	// Generation that the transaction led to, at its end; otherwise zero. One follows the other without a gap unless
	// notifications were lost.
	Generation uint32
	// PID and Process say who did it, at the end of a transaction: the process as the first
	// namespace of processes numbers it, and its name.
	PID     uint32
	Process string
}

// eventOf reads a notification.
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
