// SPDX-License-Identifier: Apache-2.0

package applier

// Numbers of the kernel's that golang.org/x/sys/unix does not have.
const (
	// attrTable is the attribute with the table's name in every message: NFTA_TABLE_NAME,
	// NFTA_CHAIN_TABLE and so on.
	attrTable = 1
	// attrWithin names the chain of rules or the set of elements: NFTA_RULE_CHAIN,
	// NFTA_SET_ELEM_LIST_SET.
	attrWithin = 2

	nftaTableOwner    = 7
	nftaChainFlags    = 10
	nftaFlowtableName = 2

	tableOwner   = 0x2
	tablePersist = 0x4

	nftaRulePositionID = 10

	nftaSetExpr        = 17
	nftaSetExpressions = 18
	nftaSetDescConcat  = 2
	nftaSetFieldLen    = 1
	nftaSetElemKeyEnd  = 10
	nftSetConcat       = 0x80

	nftaBitwiseOp    = 6
	nftaBitwiseData  = 7
	nftBitwiseRshift = 2

	// Types of entries in userdata: of a set, besides that of the key's byte order.
	udataSetDataByteOrder = 1
	udataSetComment       = 7
)
