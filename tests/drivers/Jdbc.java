// pgjdbc: batches of prepared statements, rewritten batches, batches of literals, autosave, arrays, COPY.
import java.io.StringReader;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;

public class Jdbc {
    record Row(UUID id, int n, String note, UUID ref) {}

    record Form(String name, String carrier, String options, Insert insert) {}

    interface Insert {
        void run(Connection connection, List<Row> rows) throws Exception;
    }

    static final String INSERT = "INSERT INTO items (id, n, note, ref) VALUES (?, ?, ?, ?)";
    static final UUID REF = UUID.fromString("99999999-9999-4999-8999-999999999999");
    static final String DATABASE = System.getenv("UNTWIN_DRIVER_DATABASE");
    static final int DIRECT = Integer.parseInt(System.getenv("UNTWIN_DRIVER_DIRECT"));
    static final int THROUGH = Integer.parseInt(System.getenv("UNTWIN_DRIVER_THROUGH"));

    static UUID key(String digit) {
        return UUID.fromString(digit.repeat(8) + "-1111-4111-8111-111111111111");
    }

    static List<Row> rows(UUID third) {
        return List.of(new Row(key("a"), 0, "one", REF), new Row(key("b"), 1, "it's two", REF),
            new Row(third, 2, "thr\\ee", REF), new Row(key("c"), 3, "four, é", null));
    }

    static Connection connect(int port, String options) throws SQLException {
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + port + "/" + DATABASE + "?user=postgres" + options);
    }

    static void fill(PreparedStatement statement, Row row) throws SQLException {
        statement.setObject(1, row.id());
        statement.setInt(2, row.n());
        statement.setString(3, row.note());
        if (row.ref() == null) statement.setNull(4, Types.OTHER); else statement.setObject(4, row.ref());
    }

    static void fillStrings(PreparedStatement statement, Row row) throws SQLException {
        statement.setString(1, row.id().toString());
        statement.setInt(2, row.n());
        statement.setString(3, row.note());
        statement.setString(4, row.ref() == null ? null : row.ref().toString());
    }

    static void batch(Connection connection, List<Row> rows) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
            for (Row row : rows) { fill(statement, row); statement.addBatch(); }
            statement.executeBatch();
        }
    }

    static void batchOfStrings(Connection connection, List<Row> rows) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO items (id, n, note, ref) VALUES (?::uuid, ?, ?, ?::uuid)")) {
            for (Row row : rows) { fillStrings(statement, row); statement.addBatch(); }
            statement.executeBatch();
        }
    }

    static void batchWithKeys(Connection connection, List<Row> rows) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(INSERT, new String[] {"n"})) {
            for (Row row : rows) { fill(statement, row); statement.addBatch(); }
            statement.executeBatch();
        }
    }

    /** Hibernate's way to learn what the server made: every column comes back, for each row of the batch. */
    static void batchWithGeneratedKeys(Connection connection, List<Row> rows) throws SQLException {
        List<String> returned = new ArrayList<>(), stored = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(INSERT, Statement.RETURN_GENERATED_KEYS)) {
            for (Row row : rows) { fill(statement, row); statement.addBatch(); }
            statement.executeBatch();
            ResultSet keys = statement.getGeneratedKeys();
            while (keys.next()) returned.add(keys.getInt("n") + " " + keys.getObject("id"));
        }
        try (Statement statement = connection.createStatement(); ResultSet all = statement.executeQuery("SELECT n, id FROM items ORDER BY n")) {
            while (all.next()) stored.add(all.getInt(1) + " " + all.getObject(2));
        }
        if (returned.size() != rows.size() || !returned.equals(stored)) throw new SQLException("returned " + returned + ", stored " + stored);
    }

    static void loop(Connection connection, List<Row> rows) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
            for (Row row : rows) { fill(statement, row); statement.executeUpdate(); }
        }
    }

    static String literal(Object value) {
        return value == null ? "NULL" : "'" + value.toString().replace("'", "''") + "'";
    }

    static String literals(Row row) {
        return String.format("INSERT INTO items (id, n, note, ref) VALUES (%s, %d, %s, %s)", literal(row.id()), row.n(), literal(row.note()), literal(row.ref()));
    }

    static void statementBatch(Connection connection, List<Row> rows) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (Row row : rows) statement.addBatch(literals(row));
            statement.executeBatch();
        }
    }

    static void script(Connection connection, List<Row> rows) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(String.join(";", rows.stream().map(Jdbc::literals).toList()));
        }
    }

    static void multiRow(Connection connection, List<Row> rows) throws SQLException {
        String holes = String.join(",", Collections.nCopies(rows.size(), "(?, ?, ?, ?)"));
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO items (id, n, note, ref) VALUES " + holes)) {
            int place = 0;
            for (Row row : rows) {
                statement.setObject(++place, row.id());
                statement.setInt(++place, row.n());
                statement.setString(++place, row.note());
                statement.setObject(++place, row.ref(), Types.OTHER);
            }
            statement.executeUpdate();
        }
    }

    static void unnest(Connection connection, List<Row> rows) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO items (id, n, note, ref) SELECT * FROM unnest(?, ?, ?, ?)")) {
            statement.setArray(1, connection.createArrayOf("uuid", rows.stream().map(Row::id).toArray()));
            statement.setArray(2, connection.createArrayOf("int4", rows.stream().map(Row::n).toArray()));
            statement.setArray(3, connection.createArrayOf("text", rows.stream().map(Row::note).toArray()));
            statement.setArray(4, connection.createArrayOf("uuid", rows.stream().map(Row::ref).toArray()));
            statement.executeUpdate();
        }
    }

    static void copy(Connection connection, List<Row> rows) throws Exception {
        StringBuilder data = new StringBuilder();
        for (Row row : rows) {
            String ref = row.ref() == null ? "\\N" : row.ref().toString();
            data.append(row.id()).append('\t').append(row.n()).append('\t').append(row.note().replace("\\", "\\\\")).append('\t').append(ref).append('\n');
        }
        connection.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY items (id, n, note, ref) FROM STDIN", new StringReader(data.toString()));
    }

    static final List<Form> FORMS = List.of(
        new Form("addBatch", "parameter", "", Jdbc::batch),
        new Form("addBatch_rewritten", "parameter", "&reWriteBatchedInserts=true", Jdbc::batch),
        new Form("addBatch_text", "parameter", "&binaryTransfer=false", Jdbc::batch),
        new Form("addBatch_strings", "parameter", "", Jdbc::batchOfStrings),
        new Form("addBatch_unspecified", "parameter", "&stringtype=unspecified", Jdbc::batchOfStrings),
        new Form("addBatch_generated_keys", "parameter", "", Jdbc::batchWithKeys),
        new Form("addBatch_every_column_back", "parameter", "", Jdbc::batchWithGeneratedKeys),
        new Form("addBatch_rewritten_every_column_back", "parameter", "&reWriteBatchedInserts=true", Jdbc::batchWithGeneratedKeys),
        new Form("addBatch_simple_every_column_back", "literal", "&preferQueryMode=simple", Jdbc::batchWithGeneratedKeys),
        new Form("addBatch_autosave", "parameter", "&autosave=always", Jdbc::batch),
        new Form("addBatch_simple", "literal", "&preferQueryMode=simple", Jdbc::batch),
        new Form("executeUpdate_loop", "parameter", "", Jdbc::loop),
        new Form("executeUpdate_autosave", "parameter", "&autosave=always", Jdbc::loop),
        new Form("executeUpdate_named", "parameter", "&prepareThreshold=1", Jdbc::loop),
        new Form("executeUpdate_simple", "literal", "&preferQueryMode=simple", Jdbc::loop),
        new Form("statement_batch", "literal", "", Jdbc::statementBatch),
        new Form("script", "literal", "", Jdbc::script),
        new Form("multi_row", "parameter", "", Jdbc::multiRow),
        new Form("unnest", "array", "", Jdbc::unnest),
        new Form("copy", "copy_text", "", Jdbc::copy));

    static void run(Form form, int port, List<Row> rows) throws Exception {
        try (Connection connection = connect(port, form.options())) {
            connection.setAutoCommit(false);
            form.insert().run(connection, rows);
            connection.commit();
        }
    }

    static void empty() throws SQLException {
        try (Connection connection = connect(DIRECT, ""); Statement statement = connection.createStatement()) {
            statement.execute("TRUNCATE items");
        }
    }

    static List<Row> stored() throws SQLException {
        List<Row> rows = new ArrayList<>();
        try (Connection connection = connect(DIRECT, ""); Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery("SELECT id, n, note, ref FROM items ORDER BY n")) {
            while (result.next()) {
                rows.add(new Row((UUID) result.getObject(1), result.getInt(2), result.getString(3), (UUID) result.getObject(4)));
            }
        }
        return rows;
    }

    static String complaint(Form form) throws Exception {
        List<Row> distinct = rows(key("d")), twins = rows(key("a"));
        for (int port : new int[] {DIRECT, THROUGH}) {
            empty();
            run(form, port, distinct);
            if (!stored().equals(distinct)) return "without twins: " + stored() + " on port " + port;
        }
        empty();
        try {
            run(form, DIRECT, twins);
            return "twins do not fail directly";
        } catch (SQLException error) {
            if (!"23505".equals(error.getSQLState())) throw error;
        }
        if (!stored().isEmpty()) return "directly, part of the batch was stored";
        run(form, THROUGH, twins);
        List<Row> rows = stored();
        if (rows.size() != twins.size()) return "through untwin, the rows are " + rows;
        for (int n = 0; n < twins.size(); n++) {
            Row row = rows.get(n), sent = twins.get(n);
            boolean sameKey = row.id().equals(sent.id());
            boolean sameRest = new Row(sent.id(), row.n(), row.note(), row.ref()).equals(sent);
            if (!sameRest || sameKey == (n == 2)) return "through untwin, row " + n + " is " + row;
        }
        return null;
    }

    public static void main(String[] arguments) {
        String limit = System.getenv().getOrDefault("UNTWIN_DRIVER_CARRIERS", "");
        int failures = 0;
        for (Form form : FORMS) {
            if (!limit.isEmpty() && !List.of(limit.split(",")).contains(form.carrier())) continue;
            String why;
            try {
                why = complaint(form);
            } catch (Exception error) {
                why = error.toString();
            }
            String name = "jdbc " + form.name() + " (" + form.carrier() + ")";
            System.out.println(why == null ? "ok " + name : "FAIL " + name + ": " + why);
            if (why != null) failures++;
        }
        System.exit(failures == 0 ? 0 : 1);
    }
}
