// SPDX-License-Identifier: Apache-2.0

package rtnl

// Group is a kind of changes that a Monitor can listen to.
type Group uint8

// The groups, each of both families.
const (
	// GroupLinks is about interfaces.
	GroupLinks Group = iota
	// GroupAddresses is about addresses of interfaces.
	GroupAddresses
	// GroupRoutes is about routes in all tables.
	GroupRoutes
	// GroupNeighbours is about entries of the ARP and NDP tables, and of forwarding databases.
	GroupNeighbours
	// GroupRules is about policy routing rules.
	GroupRules
)

// Event says how an object is after a change, or how it was before it went. It is a plain value.
type Event struct {
	// Group says which of the objects below is meant.
	Group Group
	// Gone means that it exists no more.
	Gone bool
	// Replace means that a route took the place of another one with the same destination and metric.
	Replace bool

	Link      Link
	Address   Address
	Route     Route
	Neighbour Neighbour
	// Forward is set instead of Neighbour, and has an Index, if the entry is of a forwarding database.
	Forward Forward
	Rule    Rule
}
