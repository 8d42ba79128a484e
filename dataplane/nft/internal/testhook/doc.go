// SPDX-License-Identifier: Apache-2.0

// Package testhook has the settings of the nftables backend that only this module's tests can set:
// others can neither import the package nor set the fields.
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

// Classes are settings of render.ClassesConfig.
type Classes struct{ fewNumbers, chains bool }

// FewNumbers makes many classes and outcomes collide, because their numbers are few.
func FewNumbers() Classes { return Classes{fewNumbers: true} }

// Chains writes all policy as chains, as if every group were over its limit.
func Chains() Classes { return Classes{chains: true} }

// HasFewNumbers reports whether it is FewNumbers.
func (c Classes) HasFewNumbers() bool { return c.fewNumbers }

// HasChains reports whether it is Chains.
func (c Classes) HasChains() bool { return c.chains }
