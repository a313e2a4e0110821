//! Given names that are common somewhere, and little else. What stands behind one, with a capital, is a surname: see [`super::name`].
//!
//! They are those of several countries in the lists of Faker (MIT), as far as people write them often. Names that are also words, months, places, tools or models (Will, May, Charlotte, Julia, Claude) are left out, and so are those that
//! are surnames of as many: they would be found where nobody is meant.

use super::cue::Short;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

const GIVEN: &str = "\
    Aage Aapo Aarne Aaro Aaron Aarón Aatos Abbas Abbi Abby Abdelkader Abdul Abdulkadir Abdullah Abdülkerim Abelardo \
    Abigail Abiye Abram Acar Achille Achim Adah Adak Adalbert Adalberto Adam Adamo Adela Adele Adelheid Adelina Adeline \
    Adina Aditya Admir Adnan Adolfo Adolphe Adoración Adria Adriaan Adrian Adriana Adriano Adrien Adrienn Adrienne Adrián \
    Adán Adèle Adéla Afiq Afton Agata Agathe Agnar Agnes Agnese Agneta Agnieszka Agnès Agostino Agris Agustin Agustina \
    Agustín Agáta Ahmad Ahti Aidan Aiden Aiko Aila Aileen Ailene Aimable Aimee Aimo Aimée Ainārs Airi Aisha Aistis Aivaras \
    Ajda Ajeng Akay Akbaş Akmal Akram Aksel Akseli Alaaddin Aladin Alaeddin Alain Alan Alastair Alaya Albano Alberico \
    Albert Alberte Alberto Albin Albina Albín Alcan Alcides Aldin Aldis Aldo Aldís Alec Alejandra Alejandro Alejo Alek \
    Aleks Aleksander Aleksandr Aleksanteri Aleksei Aleksej Alena Alessandra Alessandro Alessia Aleta Alex Alexander \
    Alexandr Alexandra Alexandre Alexandrie Alexandrina Alexandru Alexe Alexei Alexej Alexey Alexia Alfons Alfonso Alfred \
    Alfreda Alfredo Alfreð Alfréd Alfrēds Alica Alice Alicia Alicja Alida Alina Aline Alisa Alisha Alison Alisson Alistair \
    Alivia Alix Aliya Aliyah Alja Aljaž Aljoša Alka Allan Allegra Allena Allison Almendra Almir Alois Alojz Alojzij \
    Alojzija Alphonse Alpin Althea Altuğ Alva Alvar Alvaro Alver Alvin Alvis Alwin Alya Alyssa Alžbeta Alžběta Amada \
    Amadeo Amadeus Amador Amalia Amalie Amalija Amanda Amandine Amando Amani Ambar Ambre Ambrosio Amedeo Amelia Amelie \
    Amelija Amina Amir Amira Amirah Amit Amleto Amparo Amrita Amy Amália Amélia Amélie Américo Ana Anais Anamaria Ananias \
    Anastasia Anastasie Anastasía Anatol Anatolie Anatolij Anay Anaïs Anders Andor Andrea Andreas Andreea Andrei Andreia \
    Andrej Andres Andrew Andrey Andria Andrzej Andrá André Andréa Andrée Andrés Anděla Aneta Anett Anette Anežka Angela \
    Angele Angelica Angelika Angelina Angeline Angelique Angie Angèle Angélica Angélique Anica Anie Anika Anil Anina Anis \
    Anisa Anita Aniya Anja Anjali Anka Anke Ann Anna Annabel Annabelle Annalisa Annamaria Annamária Anne Anneke Anneli \
    Annelie Annelies Anneliese Annemarie Annette Annibale Annick Annie Anniina Annija Annika Annikki Annunziata Anom Anouk \
    Anselm Anselmo Ansis Antero Anthony Antim Antje Antoine Antoinette Anton Antonella Antonia Antonie Antonieta \
    Antonietta Antonija Antonin Antonina Antonino Antonio Antoniu Antonius Antony Antun António Anya Aníbal Aníta Anže \
    Aqil Aquiles Araceli Arden Ariana Ariane Arianna Arina Arinbjörn Aristide Arjun Arla Arlene Arlette Armand Armando \
    Armands Arminas Arnaldo Arnaldur Arnas Arnaud Arndt Arndís Arne Arnfríður Arngrímur Arnim Arnis Arno Arnold Arnoldas \
    Arnoldo Arnošt Arnþór Aronas Arsenie Arsenio Artemio Arthur Artur Arturo Arturs Artúr Arvid Arvin Arvīds Asad Asalet \
    Ascensión Asger Ashleigh Ashley Ashok Asif Askja Asko Asliye Assar Assunta Astrid Asunción Asım Atalay Atena Atila \
    Atit Atla Atte Attilio Atılgan Audrey Augustas Auguste Augustin Augusto Augustín Aulis Aurelia Aurelian Aurelija \
    Aurelio Aurore Aurélie Aurélien Ausma Austar Austra Auðun Auðunn Aušrinė Avelino Averi Avni Axelle Aydan Aydin Ayesha \
    Aygün Ayla Aylin Aynur Ayoub Ayse Aysel Ayten Ayub Ayşe Ayşenur Azad Azeglio Aziz Azize Azra Aðalbjörg Aðalheiður \
    Aþena Babette Badawi Bagas Bahadır Bahari Bajram Ballı Baltasar Baltazar Balthasar Balvan Bancar Baptiste Barak \
    Barbara Barbra Barbro Barnabás Bartek Bartolomeo Bartolomeu Barði Basarab Bashar Basilio Bastiaan Basım Baudouin \
    Baugur Beata Beate Beatrice Beatrix Beatriz Becky Bedri Bedřich Beinir Bektaşi Belen Belinda Belén Benedicto Benedikta \
    Benito Benjamim Benjamin Benjamín Benjámin Bennie Benone Benoît Bente Beppe Beren Berend Berglind Bergljót Bergur \
    Bergþór Bergþóra Berit Berki Bernabé Bernadett Bernadette Bernard Bernarda Bernardo Bernd Berndt Bernhard Berni \
    Bernice Bernt Bersi Berta Bertalan Bertel Bertha Berthe Bertil Berto Bertram Beryl Besim Bessi Beth Bethany Bettina \
    Betty Beverley Beverly Beáta Biagio Bianca Bianka Bibiana Biel Bilal Bilgen Biljana Billy Binay Birger Birgit Birgitta \
    Birkir Birnir Birsen Birte Birthe Birtir Biruta Bjarkar Bjarnar Bjarne Bjartmar Björgólfur Björn Bjørg Blanka Blažena \
    Blær Blíða Boaz Bodhi Bodil Bogdan Bogdana Bogi Boglárka Bogomir Bohdan Bohumil Bohumila Bohuslava Bonnie Bonny \
    Borbála Borgþór Boris Borys Botond Božena Božica Božidara Božo Bram Brandi Brandon Brandur Branislav Branislava Branka \
    Braulio Braxton Brayan Brecht Brenda Brendan Brendon Breno Brestir Brian Briana Brice Bridget Brielle Brieuc Brigid \
    Brigita Brigitta Brigitte Brinda Brisa Brita Britney Britta Brittany Broddi Brooke Bruna Bruni Bryan Bryn Brynhildur \
    Brynja Brynjar Brynjólfur Bríet Buenaventura Burkhard Bylgja Bára Bárbara Bárður Bärbel Béatrice Börje Börkur Böðvar \
    Bøje Børge Búri Břetislav Cahyo Cahyono Caitlin Caitlyn Cakrawala Caleb Callum Calogero Camelia Camil Camila Camilla \
    Camille Camillo Camilo Canan Candace Candelaria Candice Candida Candido Candra Caprice Cara Caridad Carie Carin Carina \
    Carine Carita Carl Carla Carlito Carlos Carlota Carlotta Carly Carmela Carmelo Carmen Carmina Carmine Carol Carola \
    Carole Carolin Caroline Carolyn Carri Carrie Carsten Casian Cassandra Cassie Cassius Catalina Catarina Caterina \
    Catharina Catherine Cathrine Cathy Catrina Catriona Cavit Cayetano Cecile Cecilia Cecilie Cecily Cecília Cedric \
    Celeste Celestino Celia Celina Celine Celso Cemeti Centa Centrine Cesar Cevheri Ceyhun Cezara Cezary Cezayir Chaka \
    Chantal Chao Charita Charlene Charles Charlie Charlotta Charly Charmaine Charo Cherie Cheryl Chiara Chinelo Chiquita \
    Chita Chloe Chloé Chris Christa Christel Christelle Christiaan Christiana Christiane Christin Christina Christine \
    Christof Christoffer Christoph Christophe Christopher Christy Chynna Ciara Cici Cindy Cinzia Cipriano Ciril Ciro Clare \
    Clarence Clarice Clarisa Clarissa Clarisse Clas Claudia Claudine Claudio Clemencia Clemens Clemente Clementina Cleo \
    Clive Clotilde Clovis Cláudia Clémence Clément Clémentine Cody Coleen Colette Colleen Colomba Concetta Connie Connor \
    Conny Conor Conrado Constantin Constantino Constanza Constanze Consuela Consuelo Coolidge Cordelia Corey Cori Corina \
    Corinna Corinne Corneille Cornel Cornelia Cornelio Corrado Corrie Corvin Cosimo Costache Costantino Costanzo Costel \
    Courtney Craig Crin Crina Cristi Cristian Cristiano Cristina Cristine Cristobal Cristy Cristóbal Csongor Curro \
    Custodio Cvetka Cynthia Cyril Cécile Cédric Célia Céline César Cătălina Dacian Dadi Dagmar Dagný Dagoberto Dahlia \
    Daiga Daisuke Daja Dajana Dalan Daler Dalibor Dalkılıç Damaris Damian Damiano Damien Damijan Damir Damián Damjan \
    Damjana Damu Dana Danang Danial Danica Daniel Daniela Daniele Danielius Daniella Danielle Danijel Danijela Danilo \
    Danièle Daniël Danuta Dany Daphne Daria Darija Darina Darinka Darius Dariusz Darja Darko Darla Darlene Darrell Darren \
    Darri Darryl Daryl Darío Dasa David Davorin Dayami Dayana Deana Deanna Debbie Debby Debi Debora Deborah Debra Decebal \
    Declan Deepak Deha Deirdre Delfina Delfino Delfín Delia Delila Delos Delphine Demeter Demetrio Demian Dena Denis \
    Denisa Denise Dennis Denny Derek Derrick Desmond Destini Detlef Detlev Deviner Diah Diana Diane Dianne Didier Diederik \
    Dieter Diether Dietmar Dijana Dilan Dilara Dimas Dimitri Dimitrios Dimitris Dina Dinda Dinesh Dink Diogo Dionisio Dipa \
    Dirk Dirlik Ditte Diána Dmitri Dmitry Dochia Dola Dolph Domagoj Domantas Domenico Dominic Dominik Dominika Dominique \
    Dominyka Dominykas Donal Donald Donat Donata Donatella Donato Donita Donna Dora Doreen Dorel Dorina Doris Dorota \
    Dorotea Dorothea Dorothee Dorothy Dorothée Dorottya Dorte Dorthe Douglas Dovilė Dragan Dragana Dragica Drahomíra \
    Dražen Dreki Drilon Drita Duane Duncan Dunja Dušan Dwayne Dylan Dzidra Dzintra Débora Désiré Désirée Díana Dísa Dóra \
    Dóri Dögun Dúfa Dýri Dārta Ebba Ebbi Eckart Eckhard Eddie Edel Edgard Edgardo Edie Edita Edith Edmond Edmund Edmunds \
    Edna Edoardo Edouard Edson Eduard Eduarda Eduardo Edvard Edvin Edvinas Edvīns Edward Edwin Edwina Edīte Eemeli Eetu \
    Effa Efraín Efrem Efren Egbert Egon Ehsan Eija Eila Eileen Eilífur Eimantas Eino Eitel Eiður Ekaterina Ekber Elaine \
    Eldar Eldey Eldjárn Eleanor Electa Elemér Elena Eleni Eleonora Elfa Elfi Elfriede Eliana Eliane Elias Elif Elijah \
    Elina Elinor Elio Elisa Elisabet Elisabeth Elisabetta Elise Eliseo Elita Eliza Elizabet Elizabeta Elizabeth Eliáš \
    Eliška Elka Elke Ella Ellen Ellert Ellie Elliði Ellý Elma Elmar Elmārs Elna Elodie Eloisa Elsa Elsie Elvan Elvar Elver \
    Elvi Elvin Elvira Elza Elçin Elías Elínborg Elżbieta Emanoil Emanuel Emanuela Emanuele Embla Emelie Emer Emese Emil \
    Emile Emilia Emilian Emiliano Emilie Emilija Emilio Emilis Emily Emilía Emma Emmanuel Emmanuelle Emmer Emmi Emperatriz \
    Emre Emrullah Emília Emīlija Encarna Encarnación Endah Enea Enfes Engelbert Engilbert Engill Engla Enis Ennio Enoch \
    Enrico Enrique Ensar Enteng Enzo Ephraim Epifanio Erasmo Erbil Eremia Ergün Erhard Erica Erich Erik Erika Erin Erina \
    Eris Eriş Erlendur Erling Erlingur Ermanno Erna Ernest Ernestas Ernesto Ernir Ernst Ernő Erpur Errol Ertan Erten Erva \
    Ervin Eryk Esau Esben Esja Esker Eskil Esma Esmeralda Esparta Esra Esteban Estefanía Estela Estella Estelle Estera \
    Esther Eszter Ethel Etienne Ettore Eugene Eugenia Eugenie Eugenio Eugène Eugénie Eula Eulalia Eunice Eusebio Eusebiu \
    Eva Evangelia Evaristo Evelien Eveliina Evelin Evelina Eveline Evelyn Evelyne Evert Evie Evija Evita Ewa Ewald Ewelina \
    Eydís Eygló Eyrún Eysteinn Eyvindur Ezekiel Ezequiel Ezio Ezra Eşref Fabia Fabian Fabiana Fabien Fabienne Fabio \
    Fabiola Fabián Fabrice Fabricio Fabrizio Fadil Fadime Fahmi Faize Fannar Fanney Fanni Faraj Farid Faris Fariz Fatiha \
    Fatima Fatma Faustas Faustino Fausto Fayette Federica Federico Felicia Felicitas Felicity Feliks Felipe Felix Femke \
    Fengur Ferdinand Ferenc Fergus Ferhan Ferman Fermín Fernand Fernanda Fernando Fetullah Fidel Fien Filip Filipa Filippa \
    Filippo Filomena Finnboga Finnbogi Finney Fiona Fito Fitria Fjóla Fjölnir Flavia Flavio Flore Florencia Florencio \
    Florent Florentin Florentino Florența Florian Florica Florina Floris Flosi Flóki Flóra Folke Forni Fortunata Franca \
    Frances Francesca Francesco Franci Francine Francis Francisca Francisco Franciscus Franciska Franck Franjo Frank \
    Franklín Franky Franz François Françoise Frauke Fred Freda Freddy Frede Frederic Frederick Frederico Frederik \
    Frederikke Fredo Fredric Fredrik Fredrika Fredy Freia Freja Freya Freyja Fricis Frida Fridolin Fridrich Frieda \
    Friederike Friedhelm Friedrich Frigg Fritz Friðgeir Friðjón Frosti Fryderyk Frédéric Frédérique Frímann Fríða Fríður \
    Fróði Fulvio Fuma Fuzuli Fylkir Fálki Félix Fönn Fúsi Fügen Gabel Gabor Gabriel Gabriela Gabriele Gabrielius Gabriella \
    Gabrielle Gabríel Gaby Gadang Gael Gaetano Gail Gaja Galak Galdur Galih Galilea Galuh Gani Gantar Gareth Garpur Garry \
    Gary Gaspar Gaspare Gastón Gauja Gauri Gavin Gaye Gazel Gaël Gaëlle Gebhard Geira Geiri Geirmundur Gejza Gellir Gelu \
    Gema Gemma Gena Genaro Genevieve Geneviève Gennaro Geno Genoveva Geoffrey Geoffroy George Georges Georgeta Georgette \
    Georgiana Georgie Georgina Gerald Geraldine Geraldo Gerardo Gerd Gerda Gerhard Gerhardt Gerhart Germaine Germana \
    Germán Gernot Gerold Gerry Gerson Gert Gertrud Gertrude Gerða Gerónimo Ghani Ghenadie Gheorghiță Ghislain Ghislaine \
    Ghiță Giacinto Giacobbe Giacomo Giada Giampaolo Gian Giancarlo Gianfranco Gianluca Gianna Gianni Gică Gideon Gijs \
    Gilang Gilberte Gilberto Gilda Gilles Gillian Gilman Gilmar Gina Ginette Ginny Gino Gintarė Gioacchino Giorgia Giorgio \
    Giorgos Giovanna Giovanni Girik Girolamo Gisela Gisele Giselle Gissur Gisèle Gitte Giulia Giuliana Giuliano Giulietta \
    Giuseppe Giuseppina Giustino Gizella Gladys Glenda Glenn Gloria Glóð Glúmur Goffredo Gonzalo Gonçalo Goran Gorazd \
    Gordan Gordana Gordon Gorm Gottfried Gottlieb Gottlob Goði Graciela Grani Grania Graziano Graziella Grażyna Greg Grega \
    Gregg Gregor Gregorio Gregory Greta Gretchen Grete Gretel Grethe Griet Grieta Grzegorz Grégoire Grégory Grét Gréta \
    Gríma Gróa Gudrun Gugu Guido Guillaume Guillermo Gundel Gunhild Gunilla Gunita Gunnar Gunnel Gunnhildur Gunnlaug \
    Gunnsteinn Gunta Gunter Gunther Guss Gustaf Gustas Gustav Gustave Gustavo Gustaw Gustáv Gusztáv Gutti Guttormur \
    Guðbjartur Guðbjörn Guðbrandur Guðfinna Guðlaug Guðmunda Guðríður Gwen Gytis Gyða Gyöngyi György Györgyi Győző Gábor \
    Gæfa Génesis Gérald Géraldine Gérard Gígja Gökten Gönen Gösta Gústaf Gülay Gülsüm Gülten Gülçin Gülüş Günay Güngören \
    Günter Günther Habil Haddi Hafdís Hafliða Hafliði Hafni Hafsteinn Hafþór Hagalín Hailey Hajnalka Haley Halid Halina \
    Hallbjörn Hallgerður Hallur Halsey Hami Hamid Hamish Hampus Hamza Hamzah Hanedan Hanife Hanim Hanna Hannah Hanne \
    Hannele Hannelore Hannes Hanns Hanny Hans Hansa Hansjörg Hanss Haralambie Harald Harini Harja Harman Harold Haroldo \
    Harrie Harriet Harry Hartmut Hartwig Haruka Hasan Hassan Hatice Hayley Heather Heba Hector Hedda Hedvig Hedwig Heidi \
    Heike Heiko Heimo Heiner Heini Heinrich Heinz Heitor Heiða Heiðrún Hektor Heleen Helen Helena Helene Helga Helge \
    Helinä Hellen Helma Helmer Helmut Hendri Hendrik Henna Hennie Henny Henri Henric Henrieta Henrietta Henriette Henrik \
    Henrika Henry Heraldo Herbert Herdís Heribert Heriberto Herjólfur Herma Hermann Hermanni Hermine Hernán Hersir Herta \
    Hertha Heru Hetty Hicran Hideo Hilario Hilary Hilda Hildar Hilde Hildegard Hildigunnur Hildur Hilkka Hilma Hilmir \
    Hinrik Hipólito Hiram Hiroshi Hjalmar Hjalta Hjálmur Hjördís Hjörleifur Hjörvar Hljómur Hlynur Hlíf Hlífar Hlín Hlíðar \
    Holger Holti Homero Horacio Horațiu Horea Horst Hortense Hortensia Howard Hrafnar Hrafnhildur Hrafnkell Hrannar Hrefna \
    Hreimur Hreiðar Hrund Hrvoje Hrói Hrólfur Hrönn Hrútur Hubert Hubertus Huey Hugh Hugi Huginn Hugleikur Hugo Hugrún \
    Hugues Huguette Huld Hulda Huldar Humberto Hunor Hussein Huxley Hylur Hálfdan Hálfdán Hávarður Håkan Hængur Héctor \
    Hélène Héðinn Hólmar Hólmfríður Hólmsteinn Högna Högni Höskuldur Húni Hüda Hükümdar Hümeyra Hürmet Ian Iara Iben \
    Ibolya Ibrahim Ibrani Icha Ieremia Ignace Ignacia Ignacio Ignacy Ignaz Ignazio Ignác Igor Ihsan Iida Iiris Ikhsan \
    Ikram Ilah Ilari Ilaria Ilarion Ildefonso Ildikó Ileana Ilias Ilinca Ilir Ilja Ilka Illugi Ilmur Ilona Ilonka Ilse \
    Ilyas Imani Imants Imelda Immanuel Immo Imran Inaya Indira Indriði Indriķis Indrė Ines Ineta Inga Ingeborg Ingela \
    Ingemar Ingileif Ingimar Ingimundur Ingjaldur Ingmar Ingrid Ingrida Ingrīda Inguna Ingunn Ingveldur Ingvi Inkeri \
    Inmaculada Insa Inta Inès Inés Inês Ināra Ioana Iolanda Ionela Ionică Irena Irene Irfan Irina Irinel Irja Irma \
    Irmantas Irmeli Irmgard Irwan Irène Irén Irēna Isaac Isabel Isabela Isabell Isabella Isabelle Isac Isadora Isaiah Isak \
    Isaías Isidor Isidora Isidoro Isidro Ismael Ismail Ismet Isolde Istvan István Iuliana Iurie Iustin Iustinian Ivan \
    Ivana Ivanka Ivano Iveta Ivo Ivone Ivonne Iván Iwona Izabela Izabella Izabelė Izidor Iztok Iðunn Iñaki Işın Jaafar \
    Jaan Jabbar Jace Jacinta Jacinto Jackie Jacky Jaclyn Jacob Jacobo Jacobus Jacopo Jacqueline Jacques Jader Jadranka \
    Jadwiga Jafar Jagat Jagger Jaime Jair Jairo Jairus Jakob Jakobína Jakub Jalal Jalmari Jamal James Jamie Jamila Jana \
    Jane Janet Janette Janice Janie Janin Janina Janine Janis Janja Janko Janna Jannik Jannika Jaqueline Jared Jarmila \
    Jarno Jarolím Jaromíra Jaron Jarosław Jasin Jasmani Jasmijn Jasmina Jason Javier Jayden Jayne Jayson Jazmín Jean Jeana \
    Jeanette Jeanine Jeanne Jeannette Jeannine Jeff Jeffery Jeffrey Jefri Jekaterina Jelena Jelita Jelka Jemal Jenna Jenni \
    Jennie Jennifer Jenny Jens Jere Jeremiah Jeremias Jeremy Jeremías Jermaine Jerneja Jerome Jeronimo Jerry Jerónimo \
    Jessica Jessie Jessy Jesús Jethro Jeton Jhon Jill Jillian Jim Jimena Jindra Jiřina Jiří Joachim Joakim Joan Joana \
    Joanna Joanne Joao Joaquin Joaquina Joaquín Jocelyn Jocelyne Jochen Jodi Jodie Joel Joella Joelle Joep Johan Johana \
    Johann Johanna Johanne Johannes John Johnnie Johnny Johny Jokūbas Jolanda Jolina Jonah Jonas Jonatan Jonathan Jonathon \
    Joni Jonna Jonáš Joona Jordana Jorge Joris Jorunn Josef Josefa Josefin Josefina Josefine Joseph Josepha Josephine \
    Josette Joshua Josiah Josiane Josip Josué José Josée Joséphine Jovita Jozo João Joël Joëlle Joško Jožica Juan Juana \
    Juanita Juanito Judita Judith Judy Jukka Jule Jules Julian Juliana Juliane Julianna Julie Julien Juliet Julieta \
    Juliette Julijana Julio Juliusz Julián Junia Jurgen Jussi Justin Justina Justine Justus Justyna Jutta Juul Jytte \
    Játvarður Jázmin Jérémie Jérémy Jérôme Jéssica Jóel Jónatan Jónína Jóra Jórunn Jósef Jósep Jósúa Jökla Jökull Jörg \
    Jörgen Jörn Jörundur Júlia Júlía Júlíana Jürgen Jāzeps Jēkabs Kaan Kaaren Kaarina Kaarlo Kacper Kadin Kael Kahina Kaia \
    Kaija Kaila Kaitlin Kaitlyn Kajen Kajsa Kaldi Kalervo Kalevi Kalina Kamal Kameron Kamil Kamila Kamilah Kamilla Kamma \
    Kaori Kara Kardelen Kareem Karel Karen Karim Karin Karina Karine Karitas Karja Karl Karla Karlheinz Karli Karlo Karman \
    Karmen Karol Karoliina Karolina Karoline Karolína Karon Karren Karri Karsten Karter Kartika Karítas Karólína Kasandra \
    Kasie Kasim Kaspar Kasper Katariina Katarina Katarzyna Kate Katelyn Katerina Kateřina Katharina Katharine Katherine \
    Kathi Kathleen Kathrin Kathrine Kathryn Kathy Kati Katia Katie Katinka Katja Katla Katriina Katrin Katrina Katy Kauri \
    Kaye Kayla Kaylan Kaylee Kayleigh Kazim Kazuo Kaşif Keanu Keijo Keith Kellie Kelly Kelsey Kenari Kendal Kendra Kenichi \
    Kenji Kenneth Kenny Keran Keri Kerman Kerstin Kerttu Kevin Kezban Khadija Khadijah Khaled Khalid Khalil Kian Kiara \
    Kiefer Kieran Kiki Kilian Kiljan Killian Kimberley Kimberly Kinaya Kinga Kipras Kira Kirsten Kirstin Kirstine Kirsty \
    Kitti Kjarval Kjeld Kjersti Klaudia Klaus Klavdija Klavs Kliment Knútur Kocabaş Kody Koldan Kolka Konrad Konráð \
    Konstantin Konštantín Kopan Kormákur Kornel Kornelija Kory Kotryna Koçak Kraki Kristall Kristbjörg Kristel Kristen \
    Krister Kristi Kristian Kristiina Kristijan Kristin Kristina Kristine Kristián Kristiāna Kristjan Kristjana Kristof \
    Kristofer Kristoffer Kristrún Kristupas Kristína Kristóf Kristófer Kristýna Krišjānis Krišs Krummi Krystal Krystian \
    Krystyna Kryštof Krzysztof Kría Ksenija Kullervo Kumral Kurnia Kurt Kurtis Kustaa Kusuma Květa Kylan Kyle Kylie \
    Kyllikki Kyra Kâmil Käthe Kévin Kırgız Kısmet Kıvılcım Labuh Ladislau Ladislava Laetitia Laila Lajos Laken Laksana \
    Lakshmi Lanang Landon Langgeng Lara Laras Larisa Larissa Larry Lars Lascăr Laszlo Latifah Laufey Launa Laura Laure \
    Lauren Laurence Laurens Laurent Laurenz Laurie Laurin Lauritz Lautaro Lavada Lavina Lavinia Lawton Layla Lazaro Laze \
    Lazzaro Lea Leah Leana Leander Leandra Leandro Leanne Leevi Leif Leiknir Leila Leire Lela Lempi Lena Leni Lenn Lennart \
    Leona Leonard Leonardo Leoncio Leonel Leonhard Leoni Leonid Leonidas Leonie Leonor Leonora Leopold Leopolda Leopoldo \
    Leoš Lera Leroy Lesley Leslie Lesta Leticia Letizia Letícia Levern Levi Levis Leví Lexi Leydi Leyla Liam Liana Liane \
    Liban Libuše Lică Lida Lidia Lidija Lidya Lieke Liesa Liesbeth Lieselotte Ligia Ligita Lila Lili Lilia Lilian Liliana \
    Liliane Lilie Lilija Lilita Lilli Lillian Lily Lina Linda Lindbergh Lindsay Lindsey Lindy Linn Linnea Linnéa Lintang \
    Lionel Lisa Lisandro Lisbeth Lisette Livia Livio Liya Liza Lizzy Ljiljana Ljubica Ljudmila Ljótur Ljúfur Loda Lodewijk \
    Lodovico Loes Loftur Lois Lola Lona Lope Loredana Loren Lorena Lorenza Lorenzo Loreto Loretta Lori Loris Lorna Lorne \
    Lorraine Lota Lothar Lott Lotte Lotti Lou Louis Louisa Louise Louka Lovisa Lovro Lovísa Loïc Luan Luana Luc Luca Lucas \
    Lucho Lucia Luciana Luciano Lucie Lucien Lucienne Lucija Lucile Lucinda Lucio Lucrezia Lucy Lucía Luda Ludmila \
    Ludovica Ludovico Ludvig Ludvik Ludvík Ludwig Luděk Luigi Luis Luisa Luise Luiz Luiza Lujza Luka Lukas Luke Lukita \
    Lukman Lukáš Luluh Luminița Lumír Lupe Lute Lutfi Luthfi Luuk Luzia Luzie Luís Luísa Lyda Lydia Lydie Lyla Lyman Lynda \
    Lynette Lynn László Lázaro Lærke Léna Léon Léopold Lívia Lúcia Lúther Lúðvík Lütfi Lýdia Lýður Lėja Līna Līza Maaike \
    Maarit Maarten Maartje Macarena Maci Macy Madalena Maddalena Madeline Mafalda Magali Magda Magdalena Magdalene \
    Magdaléna Magga Maggi Maggie Magne Magnea Magnes Magnus Mahala Mahali Mahesa Mahfud Mahika Mahmoud Mahmud Mahsun Maia \
    Maik Maimunah Maira Maisa Maite Maja Makara Maksim Maksymilian Malena Malene Malgorzata Malik Malika Malin Malio Malla \
    Malle Malte Mamadou Mamen Manaf Manfred Manie Manilla Manolo Manon Manuel Manuela Manuelle Marc Marcel Marcela \
    Marcelina Marcelino Marcell Marcella Marcelle Marcello Marcelo Marcia Marcial Marciano Marcin Marcio Marco Marcos \
    Marcus Marek Marel Maren Margaret Margareta Margarete Margaretha Margarida Margarita Margaux Margeir Margherita Margie \
    Margit Margo Margot Margret Marguerite Maria Mariah Mariam Marian Mariana Mariann Marianna Marianne Mariano Maribel \
    Marica Maricel Maricela Marie Marieke Mariel Mariela Mariella Marielle Marietta Mariette Marija Marijan Marijana \
    Marijke Marika Marilena Marilou Marilyn Marina Marinka Marinus Marinó Mario Marion Marisa Marisol Marissa Marit Marita \
    Marjaana Marjan Marjatta Marjeta Marjo Marjorie Marketta Marko Markus Markó Marleen Marlena Marlene Marlies Marlo \
    Marlon Marlène Marni Marnie Marnix Marquise Marta Marteinn Marten Martha Marthe Martijn Martim Martin Martina Martine \
    Martirio Martta Martín Maruša Marvin Mary Maryam Maryjo Maryse Marzena María Marína Marínó Masahiro Massimiliano Matej \
    Mateo Mateusz Matevž Mathew Mathias Mathieu Mathijs Mathilda Mathilde Matias Matilda Matilde Matouš Mats Matta Matteo \
    Matthew Matthias Matthieu Matthildur Matthäus Mattie Matyáš Maud Maude Mauno Maura Maureen Mauri Maurice Mauricio \
    Maurits Maurizio Mauro Mavis Maxime Maximilian Maximiliano Maximilien Maximo Maxine Maya Mayra Mazlum Małgorzata Meda \
    Meera Megan Meghan Mehdi Mehmet Meike Melania Melanie Melba Melchor Melina Melinda Melisa Melissa Melita Melkorka Mell \
    Melle Melvin Mengi Meredith Merel Meret Merete Merkúr Mervi Metka Metta Mevlüt Micaela Micha Michael Michaela Michail \
    Michaël Michał Micheal Michel Michela Michele Micheline Michelle Michèle Micky Mieke Mieszko Miglė Miguel Miguela \
    Mihael Mihai Mihnea Miia Miika Mijo Mika Mikael Mikaela Mike Mikel Mikhail Miki Mikko Milada Milagros Milda Mildred \
    Milena Milica Milka Milla Millie Milos Miloslav Miloslava Milou Milovan Miloš Milán Mimmi Mina Mindy Mioara Miodrag \
    Mira Miran Miranda Mireille Mirela Mirella Miriam Mirja Mirjam Mirjana Mirko Miro Miron Miroslav Miroslava Mirsad \
    Mirta Mirtha Miruna Misti Mitchell Mitică Miķelis Miłosz Mjallhvít Mjöll Modesta Modris Mohamed Mohammad Mohammed \
    Moira Moisés Mojmír Molly Mona Monica Monika Monique Monja Montel Morena Morgane Mosi Mourad Mugur Mugurel Muhamed \
    Muhammad Muhammet Mujur Muktedir Mulya Mulyono Mumpuni Murad Muriel Murilo Murray Musa Mustafa Mustapha Mustika \
    Muvaffak Mylène Myra Myriam Málfríður Máni Márcio Märta Märtha Måns Mårten Mélanie Mélissa Mélodie Mónica Mónika \
    Mörður Mücevher Müjde Mümtaz Mārīte Mădălin Mădălina Nabil Nacio Nadežda Nadia Nadin Nadine Nadja Nafile Naglis Nahuel \
    Naim Najwa Naki Nalar Namon Nancy Nando Nanna Nanni Naoki Naoko Naomi Narcis Narcisa Narciso Nasir Nastja Natacha \
    Natali Natalia Natalie Natalija Natan Natanael Natasa Natascha Natasha Natasja Nataša Nathalia Nathalie Nathan \
    Nathaniel Natividad Natália Natálie Natālija Naud Nautica Nazaret Nazim Nazlı Nazmi Neha Neil Neisti Nejc Nelli Nellie \
    Nelu Nemanja Nenni Neptün Nermin Nete Netra Netta Nevenka Neža Niall Nicanor Niccolò Nichifor Nicholas Nick Nicklas \
    Niclas Nicoară Nicodim Nicola Nicolai Nicolaj Nicolas Nicolaus Nicole Nicoleta Nicoletta Nicolás Nicolò Nicușor Nidia \
    Niek Niels Nienke Nigel Nihal Nihan Niilo Niina Nika Nikanor Nikhil Niki Nikita Nikki Nikko Niklas Nikol Nikola \
    Nikolai Nikolaos Nikolas Nikolaus Nikolett Nikolina Nilam Nilo Nils Nina Nino Nisha Nita Nives Niyaz Niyazi Njáll \
    Njörður Noah Noam Noelia Noelle Noemi Noemí Nojus Nola Nona Noora Nora Norah Norbert Norberto Nore Norma Norman \
    Normann Normunds Novella Noémi Noémie Noëlle Nubia Nugraha Nuno Nunzio Nuran Nuray Nurcan Nuria Nurkan Nuru Nurullah \
    Nuša Nyah Nyoman Néstor Nína Nökkvi Octa Octav Octavia Octavie Octavio Océane Oddgeir Oddi Oddný Oddvar Odette Odie \
    Odile Odina Ofelia Oisin Olav Olavi Ole Oleg Oleksandr Oleta Oley Olga Olinda Oliver Olivia Olivie Olivier Olivér Olov \
    Oluş Olívia Omar Omina Oona Ophélie Oranlı Orazio Oreste Orla Orma Ormar Ormur Orna Ornella Orra Orsolya Orson Oscar \
    Oskar Oskari Osman Osmo Ossian Osvaldo Osvalds Oswald Oswaldo Otakar Otilia Otri Ottavio Ottone Ottó Otávio Outi \
    Ovidio Oľga Pabla Pablo Paca Pacífica Paloma Pamela Panait Panca Pancho Panfilo Panini Panji Pankrác Paola Paolo \
    Paraschiva Pascale Pasquale Pastora Pate Patrekur Patric Patrice Patricia Patricie Patricija Patricio Patrick Patrik \
    Patrizia Patrizio Patryk Patrícia Paul Paula Paule Paulette Pauliina Paulin Paulina Pauline Paulino Paulo Paulína \
    Pavao Pavel Pavlína Pawel Paweł Payton Peder Pedro Peggy Pekkan Pellegrino Penelope Penni Pepijn Pepito Peren Peris \
    Perla Pernilla Pete Peter Petr Petra Petrea Petri Petrică Petrișor Petronella Petrus Philip Philipp Philippa Philippe \
    Phillip Philo Philomena Phoebe Phyllis Pia Piedad Pien Pierluigi Pierre Pieter Pietro Piia Pijus Pilar Piotr Pippa \
    Pius Pleșu Plinio Pluma Polina Polona Pompeo Pontus Porfirio Praba Prabu Prakash Pranata Pranav Pratik Preben Prentiss \
    Primitiva Primitivo Primus Priscila Priscilla Priya Prudencia Przemysław Purificación Purwanto Puspa Pála Pálmar Pálmi \
    Pálína Pénélope Pătru Přemysl Qadir Qasim Quentin Quint Quirino Qurban Racha Rachael Rachel Rachelle Rachid Radha \
    Radit Raditya Radka Radmila Radomír Radoslav Radoslava Radosław Radovan Radovana Rafael Rafaela Rafał Raffael Raffaele \
    Raffaella Raffaello Rafiq Ragna Ragnhild Ragnhildur Raharja Rahel Rahma Rahmi Rahul Raihan Raija Raili Raimondo \
    Raimund Raimundo Raina Rainer Raisa Raivis Raivo Raj Rajab Rajesh Rajko Rakel Ralf Ralph Ramil Raminta Ramiro Ramiz \
    Ramona Ramunė Ramón Randy Rangga Rania Ranieri Raoul Raphael Raphaël Raquel Rasim Rasma Rastislav Ratih Raul Rauno \
    Ravi Rayan Raymond Raymundo Razi Raúl Rebeca Rebecca Rebecka Rebeka Rebekah Rebekka Refik Refur Reginald Regine Reginn \
    Regína Regīna Reidar Reidun Reimar Reimer Reinaldo Reinar Reiner Reinhard Reinhart Reinhold Reksa Rembrandt Remedios \
    Remi Remo Remy Remzi Renata Renate Renato Rendy Renee Reni Renzo Renáta René Renée Restu Reuben Reva Reyhan Reynaldo \
    Reza Rhian Rhonda Ricardo Riccardo Richard Ricky Rigmor Rigo Riina Rikard Rimantė Rinaldo Rini Rino Rita Ritt Ritva \
    Riya Riyad Riza Rizki Robbie Robby Robert Roberta Roberto Robin Robyn Rochelle Rocío Rodney Rodolfo Rodolphe Rodrigo \
    Roel Rogelio Roger Rohan Roksana Roland Rolanda Rolando Rolands Rolf Romain Romaine Romeo Romina Romolo Romuald Romy \
    Roméo Rona Ronald Ronan Roni Ronin Ronja Ronnie Ronny Rony Roosa Rory Rosa Rosalia Rosalie Rosalind Rosalinda Rosalía \
    Rosanna Rosaria Rosario Rosemarie Rosemary Rosendo Rosi Rosie Rosina Rosita Rossana Rostislav Roswell Roswitha Rowena \
    Roxana Roxane Roxanne Roy Roza Rozália Ruben Rubi Rubén Rudi Rudolf Rudolph Rudy Ruel Rufino Ruggero Ruggiero Ruhsat \
    Runólfur Rupert Ruslan Rusnė Rusul Ruth Ruxandra Ružica Ryan Ryker Ryszard Rytis Régine Régis Rémi Rémy Ríkharður \
    Róberta Rómeó Rómulo Rósar Róza Róża Rögnvaldur Röskva Rúna Rúrik Rútur Rüdiger Saba Saban Sabin Sabina Sabine Sabrina \
    Sacha Sadaka Sadat Sadik Sadiq Safet Sahra Saida Saiful Saim Salina Salka Sally Salma Salome Salomon Salomé Salomón \
    Salvatore Salvör Salwa Salóme Salómon Samanta Samantha Sami Samir Samira Sammy Samsul Samuel Samuele Samúel Sanda \
    Sander Sandis Sandra Sandrine Sandro Sandur Sandy Sanita Sanja Sanjay Sante Santeri Santino Sanur Sanya Sara Sarah \
    Sarina Sarmīte Sasa Sascha Sasha Saskia Satoshi Satya Saul Savak Savana Saverio Saydam Saïd Saúl Saša Sašo Scott \
    Scottie Seamus Sean Seana Sebastiaan Sebastian Sebastiano Sebastijan Sebastián Sebastião Sebastjan Seif Seifur Seija \
    Selena Selina Selvi Semra Senna Seppe Serena Serge Sergei Sergej Sergey Sergio Serpil Sesar Sesselja Setya Severin \
    Severino Severo Sevil Sevim Sevindik Seye Shaina Shakira Shane Shani Shania Shannon Shari Sharlene Sharon Shaun Shayne \
    Sheena Sheila Shelley Shem Sherwin Sheryl Shiela Shinji Shirley Shona Shota Sian Sibylle Siegfried Siem Sien Sigge \
    Sighvatur Sigismund Sigita Sigmar Sigmund Signa Signý Sigrid Sigtryggur Sigurbjörg Sigurbjörn Sigurborg Sigurd \
    Sigurgeir Sigurlaug Sigurrós Sigursteinn Sigurveig Sigvaldi Sigþrúður Siiri Silja Silje Silke Silvan Silvana Silvano \
    Silvester Silvestre Silvestro Silvia Silvija Silvio Silvo Simas Simeon Simina Simon Simona Simone Simão Simón Sindre \
    Sinikka Siniša Sintija Siobhan Siper Sirap Sirkka Sirpa Siska Sissel Sivert Sixten Sjöfn Skafti Skaidrīte Skapti \
    Skarphéðinn Skeggi Skender Skjöldur Skuggi Skyla Skírnir Skíði Skúta Slamet Slavica Slavka Slavko Slavomír Slobodan \
    Smaranda Smiður Snježana Snæbjörn Snævarr Soffía Sofi Sofia Sofiane Sofie Sofía Solange Soledad Soleh Soline Solmaz \
    Solon Solveig Solvita Sondre Songül Sonia Sonja Sonya Sophia Sophie Sorana Soraya Sorina Soňa Srečko Stacey Stacy \
    Staffan Stanislav Stanislava Stanisław Stanka Stanko Stanley Starling Staņislavs Stefan Stefani Stefania Stefanie \
    Stefano Stefanía Steffen Steffi Steinarr Steindór Steinþór Stela Stella Stephan Stephane Stephanie Stephen Sterre \
    Steve Steven Stijn Stina Stine Stiven Stjepan Stojan Stormur Stuart Sture Styrmir Stéphane Stéphanie Stína Sudie Sunay \
    Sunil Sunna Suphi Suresh Susam Susan Susana Susann Susanna Susanne Suvakit Suzan Suzana Suzanne Suzette Svala Svan \
    Svana Svandís Svanhildur Svante Svanur Svava Svea Svein Sveina Sveinar Sveinbjörn Sven Svenja Sverre Svetlana \
    Svätopluk Syahrini Sybille Sylva Sylvain Sylvia Sylvie Sylwia Synnøve Szilveszter Szymon Sára Sæmundur Sæunn Sævar \
    Sébastien Sérgio Sóla Sólon Sólrún Sölva Sölvi Sören Sörli Søren Súsanna Süvari Sıla Tabitha Tade Tadej Tadeja Tadeo \
    Tadeusz Taha Tahir Taina Taine Taisto Taja Takashi Talia Tamar Tamara Tami Tammy Tamás Tana Tanak Tanay Taneli Tania \
    Tanja Tanpınar Tanya Tara Tarak Tariq Tarmo Taro Taru Tasdik Tasha Tasvir Tatiana Tatjana Tatu Tatyana Taufik Tauno \
    Tautvydas Tavon Taya Tecla Ted Teija Teitur Teja Tejas Tekla Telma Telmo Teodor Teodora Teodoro Teodors Teofil Terence \
    Teresa Teresita Terezija Terhi Teri Terrence Terri Terry Terttu Teréz Terézia Tessa Tessie Teun Tezcan Thaddeus Thales \
    Thalia Thea Thelma Theo Theodor Theodora Theodore Theodór Theresa Therese Theresia Thibault Thibaut Thierry Thilo \
    Thomas Thorsten Thyra Théo Théodore Théophile Thérèse Tiago Tiana Tiara Tibo Tiffany Tiia Tiina Tilda Tilen Tilman Tim \
    Timea Timm Timmy Timo Timon Timotei Timotej Timoteo Timothy Timothée Tina Tinca Tindra Tindur Tineke Tinni Tirta Tisa \
    Titas Tiziana Tiziano Tjaša Tobe Tobias Todd Todor Tolli Tom Tomas Tomasa Tomasz Tomie Tommaso Tommy Tomris Tomurcuk \
    Tomás Tomáš Tonda Toni Tonino Tonje Tonni Tonny Tony Tonya Topuz Tora Torbjörn Tord Tore Tori Torrey Torsten Tove \
    Tracey Tracy Traute Trena Trevor Tricia Trina Trine Tripp Trish Trisha Trista Tristan Tristán Trude Trudy Tsubasa \
    Tuija Tulio Tullio Tumi Tuomas Turid Tuukka Tuulia Tuulikki Tuğçe Tyra Tyrone Tânia Tímon Tína Tóta Tülay Tülin Tümer \
    Türkan Uggi Ugnė Ulises Ulrich Ulrika Ulrike Umay Umberto Umman Unni Ursula Urszula Urša Uschi Usman Uwe Vadim Vagn \
    Vagna Vaida Valborg Valdemar Valdís Valentijn Valentim Valentin Valentina Valentín Valentína Valentīna Valeri Valeria \
    Valerie Valerija Valerio Valgarður Valgeir Valter Valtýr Valéria Valérie Valéry Vanesa Vanessa Vanja Varvara Vasile \
    Vasilica Vedran Veer Veera Veerle Veeti Vegard Veiga Veijo Veis Vella Vello Velma Venera Veniamin Venla Vennie Vera \
    Verena Verim Verl Verle Verna Verne Verner Vernice Veronica Veronika Verónica Vesna Vessie Vesta Vestar Veva Vicente \
    Vicki Vicky Victor Victoriano Vidar Viesturs Viggo Viggó Vignir Vigo Viivi Vijay Vikar Viktor Viktoria Viktorie \
    Viktoría Vilberg Vilborg Vilhelm Vilhelmina Vilho Vili Viliam Viljem Viljo Vilma Vilmundur Vilém Vince Vincent \
    Vincenza Vincenzo Vineta Vinicius Vinko Vinnie Vinný Vinzenz Vinícius Violeta Violetta Violette Viorica Viraj Virginie \
    Virginía Virpi Visarion Visvaldis Vitalija Vito Vitor Vittorio Vivian Viviana Viviane Vivien Vivienne Vjekoslav \
    Vladimir Vladimíra Vladislav Vladislavs Vlaicu Vlasta Vlastimil Voicu Vojtech Vojtěch Voldemārs Volker Vonda Vopni \
    Vratislav Vuokko Väinö Véronique Vésteinn Víctor Vífill Vítor Vítězslav Víðir Vörður Wahab Waldemar Walid Walter \
    Walther Waltraud Wanda Wani Wawan Wayne Wenche Wendy Wenzel Werner Wesley Wessel Widya Wiktor Wilfred Wilfredo \
    Wilfried Wilhelm Wilhelmina Wilhelmus Willa Willard Willem Willi William Willian Willum Wilma Wilmer Winda Winfried \
    Winnie Wirt Wisnu Witold Wladimir Wojciech Wolfgang Wouter Wulan Xander Xaver Xavier Xenia Ximena Yadigar Yamin Yanina \
    Yanis Yankı Yannick Yasemin Yasin Yasmin Yasmina Yasmine Yasser Yassin Yağın Yehuda Yenny Yesenia Ylva Yngve Yngvi \
    Yohan Yohana Yolanda Yolande Yosef Youssef Yrjö Yrsa Yuki Yuli Yulia Yuliana Yumiko Yuni Yunita Yuri Yurttaş Yusuf \
    Yuta Yvan Yves Yvette Yvon Yvonne Zacharie Zachary Zahid Zahir Zahra Zaid Zainab Zakaria Zakir Zaliha Zalán Zamfir \
    Zander Zaraza Zarina Zbigniew Zbyněk Zdenka Zdenko Zdeněk Zdravko Zehra Zena Zeno Zenta Zeynep Ziedonis Zihni Zikmund \
    Zita Zizi Zlatko Zoe Zoey Zofia Zofija Zoja Zoltan Zoltán Zora Zoran Zorica Zoé Zoë Zsolt Zsombor Zsófia Zuzana Zvonka \
    Zvonko Zümre Ábel Ágnes Ágústa Álex Álfar Álfheiður Álfur Álvaro Ámbar Ángel Ángela Ársæll Ásberg Ásbjörn Ásgerður \
    Ásgrímur Áskell Ásrún Ásthildur Ástríkur Ástríður Ástvin Ástþór Âdem Ângela Ângelo Åsa Åse Æsir Ævar Çakar Çağa Çağlar \
    Édith Édouard Élisabeth Élise Éloïse Émile Émilie Éric Étienne Íris Ísafold Ísak Ísbjörn Ísleifur Ísold Ísólfur Ívan \
    Íñigo Ófeigur Ólafía Óliver Ólína Óscar Óttar Óttarr Ölvir Öncel Önundur Örjan Örlygur Özay Özbay Özdeş Özdil Özge \
    Özlem Øivind Øystein Øyvind Úlfa Úlfar Úlfur Ümmet Üzer Üzeyir Þjálfi Þoka Þorbergur Þorbjörg Þorfinnur Þorgrímur \
    Þorleifur Þorlákur Þormar Þormóður Þorri Þorvarður Þráinn Þrándur Þróttur Þröstur Þyri Þórbergur Þórey Þórhalli \
    Þórhallur Þórhildur Þóroddur Þórólfur Ādams Ādolfs Ārija İlkin İlyas İmge İmran İnançlı İnsaf İsra Ľubica Ľubomíra \
    Ľuboš Ľudmila Łukasz Şafii Şahinbey Şakir Şamil Şanlı Şayan Şebnem Şemsettin Şevket Şeyda Şinasi Şöhret Šime Špela \
    Štěpánka Šárka Žaneta Žanis Željka Željko Žemyna Živilė";

/// Words behind a given name that make it something else: a street, a house, a firm, a prize.
const NO_SURNAMES: &str = "Street St Avenue Ave Road Rd Lane Drive Boulevard Blvd Court Place Square Way Hall House Building Tower Center Centre \
    Bridge Park Garden Gardens Beach Bay Bar Lake River Island Islands Hill Hills Mountain Valley County City Town Village Airport Station Port \
    University College School Institute Academy Library Museum Theatre Theater Church Cathedral Hospital Clinic Hotel Inn Restaurant Cafe Café Bakery \
    Foundation Fund Trust Bank Group Company Co Inc Ltd LLC Corp Corporation GmbH AG SA Records Media Studio Studios Award Awards Prize Medal Cup Open \
    Day Week Show Theorem Law Rule Test Effect Number Method Algorithm Model Equation Line Code Database API Server Bot";

/// Words before a given name that make it a place: San Francisco, Saint Martin.
const PLACES: &str = "San Santa Santo São St Saint Sankt Fort Port Lake Mount Cape Isle";

/// The longest of these names, in bytes.
const LEN_MAX: usize = 13;

/// Whether this word is a given name, written as one.
pub(super) fn is_given(word: &[u8]) -> bool {
    let Some(&first) = word.first() else { return false };
    (first.is_ascii_uppercase() || first >= 0x80) && word.len() <= LEN_MAX && table().contains(word)
}

/// Whether this word, behind a given name, is a surname for all that is known.
pub(super) fn may_be_surname(word: &str) -> bool {
    !NO_SURNAMES.split_ascii_whitespace().any(|known| known == word)
}

/// Whether this word, before a given name, makes it a place.
pub(super) fn makes_place(word: &str) -> bool {
    PLACES.split_ascii_whitespace().any(|known| known == word)
}

fn table() -> &'static HashSet<&'static [u8], BuildHasherDefault<Short>> {
    static TABLE: OnceLock<HashSet<&'static [u8], BuildHasherDefault<Short>>> = OnceLock::new();
    TABLE.get_or_init(|| GIVEN.split_whitespace().map(str::as_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_and_stands_once() {
        let names: Vec<&str> = GIVEN.split_whitespace().collect();
        let longest = names.iter().map(|name| name.len()).max();
        assert_eq!((longest, table().len()), (Some(LEN_MAX), names.len()));
        assert!(names.iter().all(|name| is_given(name.as_bytes())));
        assert!(!is_given(b"john") && !is_given(b"JOHN") && !is_given(b"May") && !is_given(b""));
    }
}
