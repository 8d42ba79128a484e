// SPDX-License-Identifier: Apache-2.0

// Package testhook has settings of the nftables backend for tests. They are values of the type
// Classes, for the field TestHook of render.ClassesConfig. Other modules can set only the zero
// value, because they cannot import this package.
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

// FewNumbers makes collisions of numbers frequent. The renderer gives a number to each class of
// addresses, and to each outcome (the rules for a class). It computes the number from a hash. With
// FewNumbers, there are only 499 numbers for classes and 499 for outcomes. So for many classes or
// outcomes, the renderer computes a number that is already in use.
func FewNumbers() Classes { return Classes{fewNumbers: true} }

// Chains makes the renderer write all policy as chains of rules, as it does for policy whose
// lookups exceed a limit.
func Chains() Classes { return Classes{chains: true} }

// HasFewNumbers reports whether the settings are those of FewNumbers.
func (c Classes) HasFewNumbers() bool { return c.fewNumbers }

// HasChains reports whether the settings are those of Chains.
func (c Classes) HasChains() bool { return c.chains }
