// SPDX-License-Identifier: Apache-2.0

// Package testhook has settings of the nftables backend for tests. Only packages of this module can
// use them: other modules can neither import the package nor set the fields.
//
// # Usage
//
//	render.Config{Classes: render.ClassesConfig{TestHook: testhook.FewNumbers()}}
//
// # Concurrency
//
// A value of this package never changes, so several goroutines may use it.
//
// # Errors
//
// There are none.
package testhook

// Classes has settings of render.ClassesConfig.
type Classes struct{ fewNumbers, chains bool }

// FewNumbers makes the renderer take the numbers of classes and outcomes from a small range, so
// that the hashes of many of them collide.
func FewNumbers() Classes { return Classes{fewNumbers: true} }

// Chains makes the renderer write all policy as chains of rules, as it does for policy whose
// lookups exceed a limit.
func Chains() Classes { return Classes{chains: true} }

// HasFewNumbers reports whether the settings are those of FewNumbers.
func (c Classes) HasFewNumbers() bool { return c.fewNumbers }

// HasChains reports whether the settings are those of Chains.
func (c Classes) HasChains() bool { return c.chains }
