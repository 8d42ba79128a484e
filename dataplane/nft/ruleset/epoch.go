// SPDX-License-Identifier: Apache-2.0

package ruleset

// Epoch names a set, and the chains with rules that look into this set. The set serves to detect
// stale packets: packets that may have been evaluated partly by the state before a transaction and
// partly by the state after it. The renderer defines the set and the rules; the applier replaces
// the set.
//
// The kernel evaluates a packet by the rules that it has when the packet enters a base chain, but
// by the elements that sets and maps have at the moment of each lookup. So if a transaction comes
// in between, one lookup may find old elements and the next one new elements.
//
// If a transaction could affect packets in this way, it begins a new epoch. It deletes the set,
// adds a set with the same name and elements, and replaces the rules that look into the set. A
// packet that entered the base chain before the transaction is still evaluated by the old rules.
// These look into the deleted set, which is empty, so the packet does not match. A packet that does
// not match the set is stale.
//
// The applier adds the operations of a new epoch to the transaction of a change. But the applier
// begins no new epoch if the change itself does one of the following:
//
//   - It changes the set.
//   - It replaces a chain in Chains.
//   - It changes the policy (accept or drop) of a base chain in Chains.
type Epoch struct {
	Set    string   // every packet must match it
	Chains []string // the chains with rules that look into Set
}

// Stage names a base chain that evaluates network policy before other base chains do. During a
// change, a packet may be evaluated by the old state of this chain and by the new state of the
// later ones.
//
// So the applier makes a change in four steps if the change concerns both this chain and later
// ones. A set counts as a part of both if both look it up. After each of the first three steps, the
// applier waits for a grace period:
//
//  1. It adds the stage guard: a base chain behind this chain, which drops packets that the new
//     state of this chain denies.
//  2. It makes the change.
//  3. It deletes the rules of the stage guard.
//  4. It deletes the chain of the stage guard.
type Stage struct {
	// Chain is the name of the base chain. The applier copies the rules of this chain, and of the
	// chains to which it leads, into the stage guard. So these rules must meet three conditions:
	//
	//   - No Raw refers to sets or chains.
	//   - The data that a rule finds in a map serves only as a key, to look up other maps.
	//   - Of several maps with the same types of key and data, the rules look up the interval maps
	//     before the others.
	Chain string
	// Behind is the nftables priority of the stage guard. It must be greater than the priority of
	// Chain. The table may have a second base chain, which evaluates again the packets that are
	// stale in Chain (see Epoch). Then Behind must be greater than the priority of the second
	// chain, too.
	Behind int
}

// Translation names a map that destination NAT looks up. The first packet of a connection is
// translated in one hook, and filter rules see the packet in a later hook. While the table changes,
// the packet could be translated by the old map and filtered by the new rules. Its connection would
// keep the old translation.
//
// So if a change adds, removes or replaces elements of the map, the applier first adds rules that
// drop new connections to the keys of these elements. It adds such rules in all hooks in which
// destination NAT is possible. It waits for a grace period, makes the change, and then deletes the
// rules. Other connections are not affected.
//
// A table can have an owner: a netlink socket that alone may change it. If the table in the kernel
// was made without one, the applier replaces the whole table. Meanwhile, such rules drop new
// connections to all keys of the old and of the new map.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The priority of the rule's
	// chain must be greater than -100, which is the priority of destination NAT.
	Matches []Match
	Fields  []Field
}
