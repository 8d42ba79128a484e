// SPDX-License-Identifier: Apache-2.0

// Package applier keeps one nftables table in the kernel in its desired state. The first call of
// Apply or Update adopts the table: it reads the kernel's table, and keeps the objects that match
// the desired state. Later calls write only changes. The package does not depend on policy, so any
// program can manage a table with it. It uses netlink, and needs no nft program. (To list the table
// with nft, use version 1.0.6 or later.)
//
//	Update(delta) ─▶ ruleset.State ─▶ operations ─▶ one transaction ─▶ nf_tables
//	                     ▲                              │ refused, or the table was changed
//	                     └── compare ◀── read back ◀────┘      ▲
//	                                          notifications ───┘ Watch
//
// Package internal/encode turns operations into netlink messages. Package internal/readback
// compares the kernel's table with the desired one.
//
// # Usage
//
//	a, err := applier.New(applier.Config{Name: "mine"})
//	err = a.Apply(ctx, table)           // the whole table: the first time, it adopts
//	err = a.Update(ctx, &ruleset.Delta{ // or a change, in time in proportion to it
//		Elements: []ruleset.ElementDelta{{Set: "blocked", Add: elements}},
//	})
//	go a.Watch(ctx, func(d applier.Drift) { wake <- d }) // then the owner calls a.Resync(ctx)
//
// An Applier does not retry by itself. After an error, the program that uses it must call a.Resync
// after a while. examples/portforward has a loop that does this and handles drifts.
//
// The table must belong to this program alone, because the Applier removes all objects that are not
// desired, including stateful objects and flowtables. Apply, PlanTable, Update and Compare refuse a
// desired table with flowtables. The Applier writes to one other table: a temporary table of its
// own, whose name ends with "-guard". A process may have several Appliers, one for each table.
//
// # Transactions
//
// A change is one transaction, with the exceptions below. So packets see either the old state or
// the new one. A transaction that the kernel refuses has no effect. Unchanged rules keep their
// counters.
//
// Each transaction names the generation of the ruleset for which it was made. If another process
// commits a transaction in between, the kernel refuses ours. If our table did not change, the
// Applier sends the transaction again at once. If our table changed, or if notifications were lost,
// the Applier reads the table back first.
//
// A packet uses the rules of the generation in which it entered a base chain, but the current
// elements of sets. The kernel keeps only two generations. If two transactions are committed while
// a packet is delayed, the packet uses the newest rules in each chain that it enters afterwards. So
// without Config.Epoch, a packet may use parts of two states.
//
// The kernel makes two kinds of changes a little later than the rest of their transaction:
//
//   - Changes of a base chain's policy. Therefore the Applier changes a policy in three
//     transactions. The first adds a rule with the verdict of the new policy to the end of the
//     chain. After a grace period, the second changes the policy. The third removes the rule. A new
//     base chain with the policy drop gets such a rule, too.
//   - Changes of elements of interval sets. Therefore the Applier fills a new interval set before
//     it adds a rule that references the set.
//
// A transaction may add a chain and a map element that leads to the chain. A packet on the previous
// generation may find the new element. But for this packet, the new chain is empty, so the packet
// returns from the chain without a decision.
//
// Config.Epoch detects these packets. The Epoch names a set that normally matches every packet. A
// packet may be able to use some changes of a transaction and not others, for example if the
// transaction adds a chain. Such a transaction replaces this set by an equal one, and empties the
// old set. A packet on the previous generation is looked up in the old set, and does not match.
// Rules of the table then evaluate the packet from the beginning. In a table with an Epoch, rules
// must look up a packet in the set before they drop it as undecided. ruleset.Epoch has the details.
//
// While the Applier replaces base chains or the whole table, there is a second table, the guard.
// The guard drops all packets at the hooks of the old base chains, except at hooks of base chains
// of type nat. The guard has the name of the Applier's table, with the suffix "-guard" added.
//
//   - If a transaction deletes base chains and adds none, the Applier normally uses no guard. This
//     leaves a gap if the transaction also moves rules from a deleted base chain to another one. A
//     packet that is under way may pass both chains without meeting these rules.
//   - The Applier uses the guard for such a transaction, too, if the table in the kernel has no set
//     of the Epoch yet. It also uses the guard for such a transaction if another process or an
//     earlier process has added one of the deleted base chains.
//   - The Applier deletes the guard after a grace period. If the deletion fails, the next call
//     tries again. From Linux 5.12 on, the kernel deletes the guard when the process ends. In any
//     case, the guard stops dropping packets after ten seconds.
//
// When a transaction deletes a base chain, packets still pass the chain for a moment. But the sets
// that its rules reference may already be empty. Then these rules may drop packets that both states
// allow. The Applier prevents this if the base chain has the policy accept, and no other chain
// replaces it. Then one transaction deletes the rules of the chain, and a second one deletes the
// chain.
//
// The kernel sends a notification for each element of a transaction to listeners in all network
// namespaces. This doubles the time of a large transaction. The Applier does not listen during its
// own large transactions. Other listeners, such as "nft monitor", still double the time.
//
// # Shadows
//
// The kernel changes all elements of one interval set at one moment, but a little later than the
// rest of the transaction. So a packet may see the new state of this set and the old state of
// another object, or the reverse. One transaction is therefore enough only in these cases:
//
//   - Each packet looks up at most one of the changed elements, and only once. The caller promises
//     this with the field Apart of the Delta.
//   - There is no Config.Epoch, and the change concerns only elements of one or two interval sets.
//     If there are two, one is for IPv4 and the other for IPv6. With an Epoch, such a transaction
//     would also replace the set of the Epoch. Packets would see the new set and the new elements
//     at different moments.
//
// All other changes of interval sets take five steps, with shadows. A shadow is a copy of a set or
// chain in its new state:
//
//	build    a shadow of each set whose elements change, and of each chain whose rules change or
//	         reference such a set; rules of shadow chains reference shadow sets
//	live     after a grace period, one transaction: each such chain gets a first rule "goto shadow-N"
//	sync     after a grace period, the sets and chains themselves change
//	back     the first rules are deleted
//	destroy  after a grace period, the shadows are deleted
//
// All packets see the whole change from the step "live" on. A packet that both states allow is not
// lost, and a packet that both states forbid does not pass. Without Config.Epoch, there is one
// exception: a packet that is delayed while both the step "live" and a transaction of another
// process are committed.
//
// During the steps, the kernel needs memory for the shadows. Apply and Update take about 60 ms,
// because they wait for three grace periods (membarrier). A shadow has its own counters and limits,
// which start at zero. The rules of the original chains do not count the packets that pass shadows.
//
// The Applier splits a transaction that is larger than Config.MaxBatch, or larger than the kernel
// accepts from an ordinary user (net.core.wmem_max). The first part adds new objects. The second
// part changes the objects that packets use. The third part deletes objects that no packet can
// reach any more. If the second part is still too large, the Applier uses shadows, which can be
// filled and synchronized in any number of transactions.
//
// If the process ends between two steps, the next process removes the shadows when it adopts the
// table. If the kernel refuses a step up to "live", packets see the old state. If the kernel
// refuses a later step, packets see the new state. The Applier then reads the table back and
// completes the change.
//
// Shadows are not possible in these cases:
//
//   - The type of a set changes, or its elements have timeouts.
//   - A ruleset.Raw references the set.
//   - The hook of a base chain changes.
//   - With the shadows, a packet could take more than 15 nested jumps. A jump to a chain with a
//     shadow counts as two. When the Applier adopts a table, each jump counts as two.
//
// In these cases, the affected chains drop all packets while one transaction makes the change. If
// the change does not fit into one transaction, it fails with EMSGSIZE. If the table has
// conflicting objects of another process, the Applier replaces the whole table. The replacement
// fails with EMSGSIZE, too, if it does not fit into one transaction.
//
// Up to Linux 6.16, a lookup may miss an element of an interval set while a transaction replaces
// the element by an overlapping one. On these kernels, the Applier uses shadows for such
// replacements, too. In a set with concatenations, it uses shadows for every replacement of
// elements.
//
// The step "live" takes about 130 bytes of a transaction for each chain. If it does not fit into
// one transaction, the change uses no shadows: the affected chains drop all packets until the
// change is complete.
//
// # Translations
//
// Destination NAT translates a new connection in one hook, and filter rules see the connection in a
// later hook. During a change, the old state could translate the connection, and the new state
// filter it. To prevent this, list the maps of destination NAT in Config.Translations.
//
// If a change concerns elements of these maps, the Applier first adds a translation guard. This
// guard consists of two temporary base chains. They drop new connections to the keys of these
// elements. After a grace period, the Applier makes the change. The last transaction deletes the
// guard. While a table without an owner is replaced, such guards drop new connections to all keys
// of the old and the new maps.
//
// # Stages
//
// A packet may pass several base chains that decide about it, one after the other. During a change,
// the packet can see the old state in one base chain and the new state in a later one. To prevent
// this, list in Config.Stages each base chain that packets pass before another one. A base chain in
// this list is called a stage.
//
// A change may concern both a stage and later chains, or a set that both reference. Then the
// Applier adds a stage guard for the time of the change. This guard is a temporary base chain that
// packets pass after the stage. It drops packets that the new state of the stage denies. So a
// packet passes only if the old state as a whole or the new state as a whole allows it. The change
// takes three grace periods more. During the change, rules of the stage may log a packet twice.
//
// # Ownership
//
// From Linux 6.9 on, a netlink socket can own a table. If the kernel supports this, the Applier
// owns the table from its first call on. The kernel then refuses the writes of every other socket
// with EPERM, and "nft flush ruleset" skips the table. A second Applier of this table gets an
// *OwnedError, and writes nothing. After Close, or after the process ends in any way, the table
// stays without an owner, and the next Applier takes it over.
//
// A table that was created without an owner cannot get one. So the Applier replaces it in one
// transaction, and its counters start at zero. If the table is too large for that, or the kernel
// refuses it three times, it stays without an owner. The log and Stats.Owned report this.
//
// On older kernels, and with Config.Shared, no table has an owner. The Applier then detects and
// repairs changes by other processes.
//
// # Adoption
//
// The first call reads the table back and compares it with the desired one. The next call after a
// failure, or after a change by another process, does the same.
//
//   - A rule is compared by the hash in its userdata, and by the bytes of its expressions with the
//     names of chains and sets.
//   - A set is compared by its type and all its elements.
//
// Equal objects stay as they are, with their counters. The policy of a base chain is changed in
// place, and a chain with another hook is replaced alone. But if a set has another type than
// desired, the whole table is replaced, and all counters start at zero.
//
// # Refusals
//
// If the kernel refuses a transaction, the Applier reads the table back and retries once. If the
// kernel refuses it again, the Applier finds the objects at fault: from the kernel's answer, or
// with trial transactions that are not committed. An object at fault is held back: it is left out
// until the kernel accepts it.
//
//   - A chain at fault is replaced by a chain that drops all packets.
//   - A set at fault is left out. The chains that reference this set are replaced by chains that
//     drop all packets.
//   - If a base chain is at fault, nothing is written.
//
// Everything else is programmed, so a packet that the new state forbids never passes. While an
// object is held back, every call reads the table back and tries the object again.
//
// # Concurrency
//
// Only one goroutine at a time may use an Applier. Other goroutines may call Watch and Table
// meanwhile.
//
// # Errors
//
// An error of the kernel is an *Error. Its Detail has the kernel's message. Its cause may be:
//
//   - an *ObjectError, for an object that is held back. Then everything else is programmed.
//   - an *OwnedError, if another process owns the table.
//
// After any error the desired state stays, and the next call tries again.
package applier
