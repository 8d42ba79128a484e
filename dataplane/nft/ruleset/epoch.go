// SPDX-License-Identifier: Apache-2.0

package ruleset

// Epoch names a set and the chains with rules that look into it. A packet that does not match the
// set is stale: it may have used the old state in one lookup and the new state in another.
//
// A packet uses the rules as they are when it enters a base chain, but the current elements of
// sets and maps. A transaction that a packet could use in part begins a new epoch: it replaces the set
// by one of the same name and content, and the rules that look into it. A packet that entered before
// looks into the old set, which is empty from then on.
//
// A transaction begins no new epoch if its own operations change the set, or if they replace one of the
// chains or change its policy.
type Epoch struct {
	Set    string   // must match every packet
	Chains []string // the chains with rules that look into Set
}

// Stage names a base chain with policy that packets meet before other base chains with policy. During a
// change, a packet may meet the old state of the one and the new state of the others.
//
// So if a change concerns this chain and later ones, the applier first adds a base chain behind it: a stage
// guard, which also denies what the new state of this chain denies. A change of a set that both look into
// counts as well. The change follows after a grace period. After another one the guard loses its rules,
// and after a third one it is deleted.
type Stage struct {
	// Chain is the name of the base chain. Its rules, and those of the chains that it leads to, must not
	// have a Raw that refers to sets or chains. They must use the data of a map only as keys of other maps.
	// Of several maps with the same types of key and data, they must look up interval maps first.
	Chain string
	// Behind is the nftables priority of the stage guard. It must be greater than the priority of Chain,
	// and than that of the chain for its stale packets, if there is one.
	Behind int
}

// Translation names a map that destination NAT looks up. Destination NAT translates the first
// packet of a connection in one hook; filter rules see it in a later one. While the table changes,
// the old map could translate it and the new rules filter it. Its connection would keep that
// translation.
//
// So if a change adds, removes or replaces elements of the map, the applier first adds drop rules
// for new connections to these keys. They are in all hooks that destination NAT can be in. After a
// grace period the change follows, and then the drop rules are deleted. Other connections are not
// affected. While a table without an owner is replaced, such rules drop new connections to all keys.
type Translation struct {
	// Map is the name of the map.
	Map string
	// Matches and Fields are those of the rule that looks up the map. The priority of that rule's
	// chain must be a number greater than -100, the priority of destination NAT.
	Matches []Match
	Fields  []Field
}
