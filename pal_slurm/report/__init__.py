"""What people read: tables, folded node sets, reasons in plain sentences. In: store rows and model. Out: text."""
