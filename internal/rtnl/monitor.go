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
	// GroupNetconf is about sysctls of interfaces for which the kernel sends netconf notifications:
	// forwarding, mc_forwarding, rp_filter, proxy_arp, proxy_ndp and ignore_routes_with_linkdown.
	GroupNetconf
)

// Event says how an object is after a change, or how it was before it went.
type Event struct {
	// Group says which of the objects below is meant.
	Group Group
	// Gone means that it exists no more.
	Gone bool
	// Replace means that a route took the place of another one with the same destination and
	// metric.
	Replace bool

	Link      Link
	Address   Address
	Route     Route
	Neighbour Neighbour
	Rule      Rule
	// Index of the interface whose sysctls changed, or AllInterfaces or DefaultInterface.
	Index int
}

// AllInterfaces and DefaultInterface are the Index of conf/all and conf/default in an Event of
// GroupNetconf: NETCONFA_IFINDEX_ALL and NETCONFA_IFINDEX_DEFAULT in linux/netconf.h.
const (
	AllInterfaces    = -1
	DefaultInterface = -2
)
