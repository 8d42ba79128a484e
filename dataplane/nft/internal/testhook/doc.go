// SPDX-License-Identifier: Apache-2.0

// Package testhook has the settings of the nftables backend that only this module's tests can set: their
// types are in no package that others can import.
//
// # Usage
//
//	render.Config{Classes: render.ClassesConfig{TestHook: testhook.Classes{FewNumbers: true}}}
//
// # Concurrency
//
// The settings are plain values.
//
// # Errors
//
// There are none.
package testhook

// Classes are settings of render.ClassesConfig.
type Classes struct {
	// FewNumbers makes many classes and outcomes collide, because their numbers are few.
	FewNumbers bool
	// Chains writes all policy of workloads as chains, as if it were beyond the bounds.
	Chains bool
}
