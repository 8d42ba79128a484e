// SPDX-License-Identifier: Apache-2.0

// Command ownroutes is the smallest program around a routes.Keeper: it keeps twenty routes of its
// own in table 100, and a rule that leads there, until it is interrupted. Whoever takes one away
// sees it come back.
//
// # Usage
//
// It needs CAP_NET_ADMIN, best in a namespace of its own:
//
//	unshare -Urn ownroutes
//
// # Concurrency
//
// Two at a time would take each other's routes for their own: they have the same protocol number
// and table.
//
// # Errors
//
// Routes at fault are logged, and tried again.
package main
