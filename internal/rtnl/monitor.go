// SPDX-License-Identifier: Apache-2.0

package rtnl

// Group is a kind of notification that a Monitor can receive.
type Group uint8

// The groups. Each is for both families.
const (
	// GroupLinks has the changes of interfaces.
	GroupLinks Group = iota
	// GroupAddresses has the changes of addresses of interfaces.
	GroupAddresses
	// GroupRoutes has the changes of routes in all tables.
	GroupRoutes
	// GroupNeighbours has the changes of entries of the ARP and NDP tables, and of forwarding
	// databases.
	GroupNeighbours
	// GroupRules has the changes of policy routing rules.
	GroupRules
	// GroupNetconf has the changes of those interface sysctls for which the kernel sends netconf
	// notifications: forwarding, mc_forwarding, rp_filter, proxy_arp, proxy_ndp and
	// ignore_routes_with_linkdown.
	GroupNetconf
)

// Event has an object after a change, or before its deletion.
type Event struct {
	// Group selects the field below that has the object.
	Group Group
	// Gone means that the object was deleted.
	Gone bool
	// Replace means that a route replaced another one with the same destination and metric.
	Replace bool

	Link      Link
	Address   Address
	Route     Route
	Neighbour Neighbour
	Rule      Rule
	// Index of the interface whose sysctls changed, or AllInterfaces or DefaultInterface.
	Index int
}

// AllInterfaces and DefaultInterface are values of Event.Index in an Event of GroupNetconf: they
// mean conf/all and conf/default. In linux/netconf.h, they are NETCONFA_IFINDEX_ALL and
// NETCONFA_IFINDEX_DEFAULT.
const (
	AllInterfaces    = -1
	DefaultInterface = -2
)
