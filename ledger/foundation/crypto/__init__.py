"""Keys, signatures, encryption, Merkle trees and signed notes."""
