// SPDX-License-Identifier: Apache-2.0

// Package testhook has settings of the nftables backend that only tests of this module can make.
// Other modules can neither import the package nor set the fields.
//
// # Usage
//
//	render.Config{Classes: render.ClassesConfig{TestHook: testhook.FewNumbers()}}
//
// # Concurrency
//
// The settings do not change.
//
// # Errors
//
// There are none.
package testhook

// Classes has settings of render.ClassesConfig.
type Classes struct{ fewNumbers, chains bool }

// FewNumbers limits the numbers of classes and outcomes to a few, so that many collide.
func FewNumbers() Classes { return Classes{fewNumbers: true} }

// Chains makes all policy chains, as if every group were over its limit.
func Chains() Classes { return Classes{chains: true} }

// HasFewNumbers reports whether the settings are those of FewNumbers.
func (c Classes) HasFewNumbers() bool { return c.fewNumbers }

// HasChains reports whether the settings are those of Chains.
func (c Classes) HasChains() bool { return c.chains }
