// SPDX-License-Identifier: Apache-2.0

// Package encode turns objects of package ruleset into messages of nf_tables: tables, chains,
// rules, sets and elements. It only writes the bytes. Package nfnl sends them, and package readback
// compares them with what the kernel lists.
//
//	ruleset.Chain ──▶ NFT_MSG_NEWCHAIN     hook, policy
//	ruleset.Rule  ──▶ NFT_MSG_NEWRULE      expressions: load fields into registers, compare, act
//	                  NFT_MSG_NEWSET       its anonymous sets come first
//	ruleset.Set   ──▶ NFT_MSG_NEWSET       types of keys and data
//	Element       ──▶ NFT_MSG_NEWSETELEM   many in one message
//
// In a set with one key field, the kernel stores an interval as two elements. The first element has
// the first key of the interval, and the second has the key after its last key. So the package
// writes both elements.
//
// The package writes the expressions and attributes of a rule exactly as the kernel lists them: in
// the same order and encoding. So a rule that is read back equals the written one byte by byte, and
// nft can print it.
//
// # Usage
//
//	batch := nfnl.NewBatch()
//	e := encode.New(batch, ruleset.FamilyINet, "mine", state.Set)
//	e.Begin(0)
//	e.AddChain(chain)
//	e.AddRule(chain.Name, 0, &rule, encode.Position{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
//	err := e.Err() // then conn.Commit(batch, nil)
//
// # Concurrency
//
// Only one goroutine at a time may use an Encoder.
//
// # Errors
//
// If an object could not be encoded, Encoder.Err returns an error. The batch must then not be sent.
package encode
