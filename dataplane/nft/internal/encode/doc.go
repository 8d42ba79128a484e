// SPDX-License-Identifier: Apache-2.0

// Package encode turns objects of package ruleset into messages of nf_tables: tables, chains,
// rules, sets and elements. It writes bytes. Package nfnl sends them, and package readback compares
// them with the kernel's listing.
//
//	ruleset.Chain ──▶ NFT_MSG_NEWCHAIN     hook, policy
//	ruleset.Rule  ──▶ NFT_MSG_NEWRULE      expressions: load fields into registers, compare, act
//	                  NFT_MSG_NEWSET       its anonymous sets come first
//	ruleset.Set   ──▶ NFT_MSG_NEWSET       types of keys and data
//	Element       ──▶ NFT_MSG_NEWSETELEM   many in one message; an interval of one field is two
//
// Expressions and attributes have the form and order in which the kernel lists a rule. So a rule
// that is read back equals the written one byte by byte, and nft can print it.
//
// # Usage
//
//	batch := nfnl.NewBatch()
//	e := encode.New(batch, ruleset.FamilyINet, "mine", state.Set)
//	e.Begin(0)
//	e.AddChain(chain)
//	e.AddRule(chain.Name, 0, &rule, encode.Place{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
//	err := e.Err() // then conn.Commit(batch, nil)
//
// # Concurrency
//
// Only one goroutine at a time may use an Encoder.
//
// # Errors
//
// If an object could not be encoded, Err returns an error. The batch must then not be sent.
package encode
